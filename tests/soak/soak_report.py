"""The outcome of a soak as text, and kept between markers in a page."""

from pathlib import Path

from soak_outcome import Report

BEGIN, END = "<!-- soak:begin -->", "<!-- soak:end -->"
INTRODUCTION = """# Reliability

## A soak

`make soak MINUTES=60` runs mixed traffic (chat, responses, embeddings, messages; whole and as
streams; clients that leave or read slowly; big bodies; denied agents; operators who read and change
limits) against two workers, under faults in a random order, each for up to three seconds. The
upstream keeps the truth: what it stated for each request. "Least" and "most" differ by the requests
that were cut, whose cost is an estimate where nothing was reported. Emptying Redis and killing a
worker may cost what was under way: they come last, and their cost is told apart.
"""
HEAD = """| organization | exact | cut | truth, least | truth, most | Redis | ledger, month \
| ledger, minutes | held | open |
|---|---|---|---|---|---|---|---|---|---|"""


def text(report: Report) -> str:
    """The whole report."""
    lines = [
        f"{report.seconds / 60:.1f} minutes, seed {report.seed}, two workers.",
        "",
        HEAD,
    ]
    for it in report.books:
        sums = it.counted
        lines.append(
            f"| {it.name} | {it.exact:,} | {it.cut:,} | {it.least:,} | {it.most:,} "
            f"| {sums.redis:,} | {sums.months:,} | {sums.minutes:,} | {sums.held} | {sums.open} |"
        )
    lines += ["", "| apart | tokens lost | at most | reservations left | requests under way |"]
    lines += ["|---|---|---|---|---|"]
    lines += [
        f"| {it.name} | {it.tokens:,} | {it.allowed:,} | {it.left} | {it.under_way} |"
        for it in report.losses
    ]
    lines += ["", "Answers: " + _counts(report.statuses) + "."]
    lines += ["", "Operators' calls: " + _counts(report.operated) + "."]
    lines += ["", "Faults: " + _counts(report.faults) + "."]
    memory = ", ".join(f"{warm:.0f} to {end:.0f} MiB" for warm, end in report.memory)
    lines += ["", f"Memory of the workers, warm and at the end: {memory}."]
    lines += ["", "Descriptors of the workers, before and after:", ""]
    lines += [f"- {line}" for line in report.sockets]
    lines += ["", f"Violations: {len(report.violations)}."]
    lines += [f"- {violation}" for violation in report.violations]
    return "\n".join(lines) + "\n"


def keep(page: Path, said: str) -> None:
    """Replace what is between the markers; a page that is not there is made."""
    if not page.exists():
        page.write_text(f"{INTRODUCTION}\n{BEGIN}\n{END}\n")
    before, _, rest = page.read_text("utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n{said}{END}{after}")


def _counts(found: dict[str, int]) -> str:
    return ", ".join(f"{name.replace('_', ' ')}: {n:,}" for name, n in sorted(found.items()))
