"""The contexts of pages are what the templates use, and how a meter stands."""

from dataclasses import fields
from typing import Any

import pytest
from jinja2 import meta, nodes

from dashboard import agent, contexts, organization, overview, standing_contexts
from dashboard.contexts import Meter
from dashboard.rendering import ENVIRONMENT, TEMPLATES

PAGES = {
    "overview": contexts.Overview,
    "organization": contexts.Organization,
    "agent": contexts.Agent,
    "changes": standing_contexts.Changes,
    "history": standing_contexts.History,
    "error": standing_contexts.Error,
    "sign_in": standing_contexts.SignIn,
}
FRAGMENTS = {
    "overview": overview.FRAGMENTS,
    "organization": organization.FRAGMENTS,
    "agent": agent.FRAGMENTS,
}


def parts(name: str) -> set[str]:
    """A template and all that it is made of."""
    found: set[str] = set()
    new = {f"{each}.html" for each in (name, *FRAGMENTS.get(name, {}).values())}
    while new:
        found |= new
        trees = [ENVIRONMENT.parse((TEMPLATES / each).read_text("utf-8")) for each in new]
        new = {
            other
            for tree in trees
            for other in meta.find_referenced_templates(tree)
            if other is not None
        } - found
    return found


def used(name: str) -> set[str]:
    """The names that a page's templates take from its context."""
    trees = [ENVIRONMENT.parse((TEMPLATES / each).read_text("utf-8")) for each in parts(name)]
    names: set[str] = set().union(*map(meta.find_undeclared_variables, trees))
    made = {
        name for tree in trees for each in tree.find_all(nodes.FromImport) for name in each.names
    }
    made |= {
        name.name for tree in trees for name in tree.find_all(nodes.Name) if name.ctx == "store"
    }
    return names - made - set(ENVIRONMENT.globals)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_uses_exactly_its_context(name: str) -> None:
    """Nothing is undefined, and nothing is carried along unused."""
    context: Any = PAGES[name]

    assert {field.name for field in fields(context)} == used(name)


def test_every_template_belongs_to_a_page() -> None:
    """None is left over."""
    assert {path.name for path in TEMPLATES.iterdir()} == set().union(*map(parts, PAGES))


@pytest.mark.parametrize(
    ("used_", "limit", "share", "state", "excess"),
    [
        (0, 100, 0.0, "free", 0),
        (74, 100, 0.74, "free", 0),
        (75, 100, 0.75, "near", 0),
        (99, 100, 0.99, "near", 0),
        (100, 100, 1.0, "full", 0),
        (130, 100, 1.0, "full", 30),
        (0, 0, 1.0, "full", 0),
        (5, 0, 1.0, "full", 5),
        (5, None, None, "free", 0),
        (None, 100, None, "free", 0),
        (None, 0, None, "free", 0),
    ],
)
def test_a_meter_tells_how_it_stands(
    used_: int | None, limit: int | None, share: float | None, state: str, excess: int
) -> None:
    """Full, also where nothing is admitted at all; nothing where it is not known."""
    meter = Meter(used_, limit)

    assert (meter.share, meter.state, meter.excess) == (share, state, excess)
