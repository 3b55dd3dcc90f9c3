"""The last hour as a picture the size of a word."""

from collections.abc import Sequence
from itertools import groupby

from markupsafe import Markup

from dashboard.formatting import grouped
from graphql_api.model import UsagePoint

HEIGHT = 20
"""In units of the picture; its width is one unit for each minute."""


def sparkline(points: Sequence[UsagePoint], limit: int | None) -> Markup:
    """Requests per minute as inline SVG: admitted solid, with denied on top of them, the limit
    dashed, and grey where the limiter was open. Its label says the same in words. Size and dashes
    are the style sheet's: fifty of them stand on a page.
    """
    admitted = [point.requests for point in points]
    asked = [point.requests + _denied(point) for point in points]
    most = max([*asked, limit or 0, 1])

    parts = [
        f'<path fill="#D55E00" d="{_steps(asked, most)}"/>' if asked != admitted else "",
        f'<path fill="#0072B2" d="{_steps(admitted, most)}"/>' if any(admitted) else "",
        _open(points),
        _limit(limit, most, len(points)),
    ]
    return Markup(  # noqa: S704 - numbers and words of ours
        f'<svg class="sparkline" viewBox="0 0 {max(len(points), 1)} {HEIGHT}"'
        f' preserveAspectRatio="none" role="img"'
        f' aria-label="{_words(points, limit)}">{"".join(parts)}</svg>'
    )


def _denied(point: UsagePoint) -> int:
    denied = point.denied
    return denied.agent + denied.org + denied.platform + denied.tokens


def _steps(counts: Sequence[int], most: int) -> str:
    """The outline of bars side by side, down to the ground. What is not zero can be seen."""
    path, before, width = f"M0 {HEIGHT}", 0, 0
    for count in [*counts, 0]:
        height = max(round(count * HEIGHT / most), min(count, 1))
        if height != before:
            path += f"h{width}v{before - height}"
            before, width = height, 0
        width += 1
    return path + "z"


def _open(points: Sequence[UsagePoint]) -> str:
    bands, place = "", 0
    for is_open, minutes in groupby(points, key=lambda point: point.open > 0):
        width = len(list(minutes))
        bands += f"M{place} 0h{width}v{HEIGHT}h-{width}z" if is_open else ""
        place += width
    return f'<path fill="#808080" fill-opacity=".5" d="{bands}"/>' if bands else ""


def _limit(limit: int | None, most: int, width: int) -> str:
    if limit is None:
        return ""
    y = min(max(HEIGHT - round(limit * HEIGHT / most), 0.5), HEIGHT - 0.5)  # a whole line
    return f'<path stroke="currentColor" d="M0 {y}H{width}"/>'


def _words(points: Sequence[UsagePoint], limit: int | None) -> str:
    admitted = sum(point.requests for point in points)
    denied = sum(map(_denied, points))
    undecided = sum(point.open for point in points)
    most = max((point.requests for point in points), default=0)
    said = [
        f"Last {len(points)} minutes: {grouped(admitted)} admitted",
        f"at most {grouped(most)} in a minute",
        f"{grouped(denied)} denied" if denied else "",
        f"{grouped(undecided)} forwarded undecided" if undecided else "",
        "no limit" if limit is None else f"limit {grouped(limit)}",
    ]
    return "; ".join(filter(None, said))
