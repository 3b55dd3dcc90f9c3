"""Gates on the tail: it is the longest module and the longest function that tell code from code."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("dashboard", "db", "gateway", "graphql_api", "lua")
LONGEST_MODULE = 300
LONGEST_FUNCTION = 50

MODULES = sorted(
    path
    for package in PACKAGES
    for path in (ROOT / package).rglob("*")
    if path.suffix in {".py", ".lua"}
)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_can_be_read_in_one_go(path: Path) -> None:
    """No module grows beyond what fits a head."""
    assert len(path.read_text("utf-8").splitlines()) <= LONGEST_MODULE


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_function_fits_on_one_screen(path: Path) -> None:
    """Nor does a function."""
    if path.suffix == ".py":
        assert [found for found in _functions(path) if found[1] > LONGEST_FUNCTION] == []


def test_there_are_modules() -> None:
    """The gates above look at something."""
    assert len(MODULES) > 20


def _functions(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1
