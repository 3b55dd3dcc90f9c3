"""axe-core, the accessibility checks of others."""

import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

from missing import missing
from playwright.sync_api import Page

PACKAGE = "axe-core@4.14.1"
GRAVE = ("serious", "critical")


def axe_source(folder: Path) -> str:
    """Its script, fetched by npm into the folder."""
    npm = shutil.which("npm")
    if npm is None:
        missing("npm is not here, which fetches axe-core")
    command = [npm, "pack", "--silent", PACKAGE]
    packed = subprocess.run(command, cwd=folder, capture_output=True, timeout=120, check=False)
    if packed.returncode:
        missing("npm cannot fetch axe-core")
    with tarfile.open(next(folder.glob("*.tgz"))) as archive:
        file = archive.extractfile("package/axe.min.js")
        assert file is not None
        return file.read().decode()


def grave_faults(page: Page, axe: str) -> list[Any]:
    """What axe-core finds serious or critical in the page as it looks now: rule and elements."""
    page.evaluate(axe)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        (fault["id"], [node["html"] for node in fault["nodes"]])
        for fault in found["violations"]
        if fault["impact"] in GRAVE
    ]
