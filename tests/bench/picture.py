"""The page's picture: what a request costs. Drawn by Plotly in Debian's Chromium, off-line."""

import shutil
from pathlib import Path

import plotly.graph_objects as go
from field import Field
from participants import DIRECT_ROW
from playwright.sync_api import sync_playwright
from plotly.offline import get_plotlyjs
from plotly.subplots import make_subplots
from results import Results

WIDTH, HEIGHT = 900, 380
DECADES = (0.3, 5.5)
"""From 2 us to a third of a second, in each panel."""
GATEWAY, REDIS = "#0072B2", "#E69F00"
"""Of Okabe and Ito's colors, which everybody can tell apart."""
PANELS = ("request, admitted", "request, denied", "stream of 50 events")
DRAW = """async ([figure, width, height]) => {
    const {data, layout} = JSON.parse(figure);
    const plot = await Plotly.newPlot(document.body, data, layout);
    return Plotly.toImage(plot, {format: "svg", width, height, imageDataOnly: true});
}"""


def draw(field: Field, results: Results, path: Path) -> bool:
    """Write an SVG; False where there is no Chromium."""
    chromium = shutil.which("chromium")
    if chromium is None:
        return False
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.set_content("<body></body>")
        page.add_script_tag(content=get_plotlyjs())
        figure = _figure(field, results).to_json()
        path.write_text(page.evaluate(DRAW, [figure, WIDTH, HEIGHT]))
        browser.close()
    return True


def _figure(field: Field, results: Results) -> go.Figure:
    """A panel for each kind of request; logarithmic, as the slowest take a hundred times more."""
    figure = make_subplots(cols=3, shared_yaxes=True, subplot_titles=PANELS)
    participants = [it for it in reversed(field.participants) if it.name != DIRECT_ROW]
    found = (results.usual, results.refused, results.streamed)
    for column, get in enumerate(found, 1):
        rows = [(it.title.replace("**", ""), get(it.name)) for it in participants]
        for name, color, us in (
            ("gateway", GATEWAY, [it and it.gateway_us for _, it in rows]),
            ("Redis", REDIS, [it and it.redis_us for _, it in rows]),
        ):
            figure.add_bar(
                x=us,
                y=[title.partition(":")[0] for title, _ in rows],
                orientation="h",
                name=name,
                marker_color=color,
                showlegend=column == 1,
                text=[f"{value:,.0f}" if value else "" for value in us],
                textposition="outside",
                cliponaxis=False,
                row=1,
                col=column,
            )
    figure.update_xaxes(type="log", range=DECADES, showticklabels=False, showgrid=False)
    figure.update_layout(
        title="CPU microseconds, by process (logarithmic)",
        template="plotly_white",
        width=WIDTH,
        height=HEIGHT,
        margin={"l": 20, "r": 60, "t": 90, "b": 20},
        legend={"orientation": "h", "x": 1, "xanchor": "right", "y": 1.2, "traceorder": "reversed"},
    )
    figure.update_yaxes(automargin=True)
    return figure
