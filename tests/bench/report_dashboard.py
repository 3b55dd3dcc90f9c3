"""The operators' pages as a section of the report."""

from bench_dashboard import FEW, LARGE, MANY, ORGANIZATION, Dashboard
from tables import table

HTML_TARGET_BYTES = 100_000
FEW_TARGET_MS, MANY_TARGET_MS = 50, 300

SECTION = """\
Every agent has a busy hour behind it. One request after another on one connection, answered by one
process; "sent" is what a browser gets, compressed with brotli. An update is what an open page asks
for every ten seconds.

{pages}

Static files, which browsers keep for ever:

{files}

{targets}"""


def section(it: Dashboard) -> str:
    """The whole section."""
    pages = [
        (name, f"{page.bare:,.0f}", f"{page.sent:,.0f}", f"{page.p50_ms:.1f}", f"{page.cpu_ms:.1f}")
        for name, page in it.pages.items()
    ]
    files = [(name, f"{bare:,}", f"{sent:,}") for name, (bare, sent) in it.files.items()]
    return SECTION.format(
        pages=table(("page", "bytes", "sent", "p50 ms", "CPU ms"), pages),
        files=table(("file", "bytes", "sent"), files),
        targets=_targets(it),
    )


def _targets(it: Dashboard) -> str:
    few, many = it.pages[ORGANIZATION], it.pages[LARGE]
    return (
        f"Targets: with {FEW} agents under {HTML_TARGET_BYTES:,} bytes:"
        f" {_verdict(few.bare, HTML_TARGET_BYTES)}, and {FEW_TARGET_MS} ms:"
        f" {_verdict(few.p50_ms, FEW_TARGET_MS)}; with {MANY:,} agents under {MANY_TARGET_MS} ms:"
        f" {_verdict(many.p50_ms, MANY_TARGET_MS)}."
    )


def _verdict(measured: float, target: int) -> str:
    return "met" if measured < target else "missed"
