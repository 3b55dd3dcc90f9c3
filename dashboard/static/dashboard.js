// Draws the charts of a page, and keeps its numbers fresh while somebody looks at it.
// Without this script the page says the same, as of when it was loaded.

const EVERY_MS = 10_000;
const PATIENCE_MS = 8_000;
const LEGEND_ROW_PX = 20;
const SIGN_IN = "/dashboard/sign-in";
const UNAUTHORIZED = 401;
const GONE = 404;

const main = document.querySelector("main");
const dark = matchMedia("(prefers-color-scheme: dark)");
const narrow = matchMedia("(max-width: 520px)");
const finger = matchMedia("(pointer: coarse)");
const figures = new Map(); // by name: the place of a chart, and what it shows

// ---- times -------------------------------------------------------------------------------------

const localTime = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const localMoment = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });

/** Put the reader's own time into the title of each time below `root`. */
function tellLocalTimes(root) {
  for (const time of root.querySelectorAll("time[data-local]")) {
    time.title = localMoment.format(new Date(time.dateTime));
  }
}

function clock(moment) {
  return `${moment.toISOString().slice(11, 19)} UTC`;
}

// ---- charts ------------------------------------------------------------------------------------

/** A trace that shows nothing, but adds the reader's own time to what is shown on hover. */
function localClock(bars) {
  const begin = Date.parse(`${bars.x0.replace(" ", "T")}Z`);
  const times = bars.y.map((_, place) => localTime.format(begin + place * bars.dx));
  return {
    type: "scatter",
    mode: "markers",
    uid: "local-time",
    x0: bars.x0,
    dx: bars.dx,
    y: times.map(() => 0),
    customdata: times,
    hovertemplate: "%{customdata} where you are<extra></extra>",
    marker: { opacity: 0 },
    showlegend: false,
  };
}

/** The color behind an element, which is that of the first ancestor that has one. */
function backgroundOf(element) {
  const color = getComputedStyle(element).backgroundColor;
  if (color !== "rgba(0, 0, 0, 0)") {
    return color;
  }
  if (element.parentElement) {
    return backgroundOf(element.parentElement);
  }
  return dark.matches ? "#111" : "#fff";
}

/** A line in the color of text, on a wider one that keeps it apart from the bars that it crosses. */
function lined(shape, text, surface) {
  const margin = { color: surface, width: shape.line.width + 2.5, dash: "solid" };
  return [
    { ...shape, line: margin },
    { ...shape, line: { ...shape.line, color: text } },
  ];
}

/** The layout in the colors of the page as it looks now. */
function themed(layout, plot) {
  const { color: text, fontFamily: family } = getComputedStyle(plot);
  const surface = backgroundOf(plot);
  const grid = "rgba(128,128,128,0.3)";
  return {
    ...layout,
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: text, family },
    hoverlabel: { bgcolor: surface, bordercolor: text, font: { color: text }, namelength: -1 },
    dragmode: finger.matches ? false : "zoom", // a finger scrolls the page
    xaxis: { ...layout.xaxis, gridcolor: grid },
    yaxis: { ...layout.yaxis, gridcolor: grid, zerolinecolor: text },
    shapes: layout.shapes.flatMap((shape) =>
      shape.type === "line" ? lined(shape, text, surface) : shape,
    ),
    annotations: layout.annotations.map((label) => ({ ...label, bgcolor: surface, opacity: 0.85 })),
  };
}

/** The layout for the width that there is: on a narrow screen the legend has two columns. */
function fitted(layout, entries) {
  if (!narrow.matches) {
    return layout;
  }
  const columns = { entrywidth: 0.5, entrywidthmode: "fraction", indentation: -12 };
  return {
    ...layout,
    height: layout.height + (Math.ceil(entries / 2) - 1) * LEGEND_ROW_PX,
    title: { ...layout.title, font: { size: 11 } },
    legend: { ...layout.legend, ...columns, font: { size: 10 } },
  };
}

/** The hour to draw: the newest, or where the reader has zoomed that into which they did. Plotly
    keeps the zoom as long as the whole is the same, and goes back to that at a double click. */
function wholeHour(chart) {
  const shown = chart.plot.layout?.xaxis.range;
  if (!chart.whole || String(shown) === String(chart.whole)) {
    chart.whole = chart.figure.layout.xaxis.range;
  }
  return chart.whole?.slice(); // Plotly writes into what it is given
}

/** Draw what the server made of the numbers; the reader's zoom stays. */
function draw(chart) {
  const { plot, figure } = chart;
  const bars = figure.data[0];
  const data = bars.x0 ? [...figure.data, localClock(bars)] : figure.data;
  const layout = fitted(themed(figure.layout, plot), figure.data.length);
  layout.xaxis.range = wholeHour(chart);
  return Plotly.react(plot, structuredClone(data), layout, {
    displayModeBar: false,
    displaylogo: false,
    responsive: true,
    typesetMath: false,
  });
}

function drawAll() {
  figures.forEach(draw);
}

function findFigures() {
  for (const element of document.querySelectorAll("[data-figure]")) {
    const figure = JSON.parse(element.querySelector("script").textContent);
    figures.set(element.dataset.figure, { plot: element.querySelector(".plot"), figure });
    element.classList.add("drawn");
  }
}

// ---- fresh numbers -----------------------------------------------------------------------------

let asOf = new Date();
let timer;
const banner = document.createElement("p");

function sayStale(isStale) {
  const text = `Numbers as of ${clock(asOf)}: the gateway does not answer`;
  banner.hidden = !isStale;
  banner.textContent = isStale ? text : "";
}

/** Replace a part of the page, unless the focus is in it, or nothing has changed. */
function replace(element, html) {
  if (element.contains(document.activeElement) || element.dataset.shown === html) {
    return;
  }
  const open = [...element.querySelectorAll("details")].map((details) => details.open);
  element.innerHTML = html;
  element.dataset.shown = html;
  element.querySelectorAll("details").forEach((details, place) => {
    details.open = open[place] ?? details.open;
  });
  tellLocalTimes(element);
}

function show(news) {
  if (news.as_of) {
    asOf = new Date(news.as_of);
  }
  for (const element of document.querySelectorAll("[data-fragment]")) {
    const html = news.fragments[element.dataset.fragment];
    if (html !== undefined) {
      replace(element, html);
    }
  }
  for (const [name, figure] of Object.entries(news.figures)) {
    const known = figures.get(name);
    if (known) {
      known.figure = figure;
      draw(known);
    }
  }
}

async function ask() {
  const response = await fetch(main.dataset.live + location.search, {
    headers: { Accept: "application/json" },
    cache: "no-store",
    signal: AbortSignal.timeout(PATIENCE_MS),
  });
  const page = main.dataset.live.replace(/\/live$/, "") + location.search;
  if (response.status === UNAUTHORIZED) {
    location.assign(`${SIGN_IN}?next=${encodeURIComponent(page)}`);
  } else if (response.status === GONE) {
    location.assign(page); // the server says what there is now
  } else if (response.ok) {
    show(await response.json());
  } else {
    throw new Error(`the gateway answered ${response.status}`);
  }
}

async function update() {
  clearTimeout(timer);
  try {
    await ask();
    sayStale(false);
  } catch {
    sayStale(true); // and ask again: it may be back
  }
  clearTimeout(timer);
  if (!document.hidden) {
    timer = setTimeout(update, EVERY_MS);
  }
}

function keepFresh() {
  banner.className = "notice problem stale";
  banner.setAttribute("role", "status");
  banner.hidden = true;
  main.prepend(banner);
  timer = setTimeout(update, EVERY_MS);
  document.addEventListener("visibilitychange", () => {
    clearTimeout(timer);
    if (!document.hidden) {
      update();
    }
  });
}

// ---- start -------------------------------------------------------------------------------------

tellLocalTimes(document);
findFigures();
drawAll();
dark.addEventListener("change", drawAll);
narrow.addEventListener("change", drawAll);
if (main.dataset.live) {
  keepFresh();
}
