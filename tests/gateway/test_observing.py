"""The dashboard and the alerts in docs/ ask for what there is."""

import json
import re
from pathlib import Path

import pytest

from gateway.numbers import FAMILIES

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", ["grafana.json", "alerts.yml", "observing.md"])
def test_every_metric_that_is_named_is_told(name: str) -> None:
    """A renamed metric would leave a panel empty and an alert silent."""
    text = (DOCS / name).read_text("utf-8")
    found = set(re.findall(r"\bibex_[a-z_]+\b", text))

    assert len(found) >= 3
    assert {re.sub("_bucket$", "", metric) for metric in found} <= set(FAMILIES)


def test_every_metric_is_documented() -> None:
    """The table has them all."""
    text = (DOCS / "observing.md").read_text("utf-8")

    assert [name for name in FAMILIES if f"`{name}`" not in text] == []


def test_the_dashboard_can_be_imported() -> None:
    """It is JSON, and each of its panels asks something."""
    panels = json.loads((DOCS / "grafana.json").read_text("utf-8"))["panels"]

    assert all(target["expr"] for panel in panels for target in panel["targets"])
