"""GraphQL over HTTP, audited by the suite of the people who wrote the specification."""

import asyncio
import json
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from graphql_server import graphql_server
from missing import missing
from operators import World

from db.api_keys import Role
from graphql_api.auth import Authenticator

AUDIT = Path(__file__).with_name("graphql_audit.cjs")
PACKAGES = ("graphql-http@1.23.1", "graphql@16.15.0")


@pytest.fixture(scope="module")
def node_modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the suite."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        missing("Node is not here, which the audit suite runs on")
    folder = tmp_path_factory.mktemp("audit")
    command = [npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", *PACKAGES]
    installed = subprocess.run(command, cwd=folder, capture_output=True, timeout=120, check=False)
    if installed.returncode:
        missing("npm cannot fetch the audit suite")
    return folder / "node_modules"


async def test_every_audit_of_graphql_over_http_is_ok(node_modules: Path, operated: World) -> None:
    """A running server passes all 61 audits of graphql-http, those that say SHOULD and MAY too."""
    async with graphql_server(operated.management, Authenticator(operated.repository)) as server:
        audit = await asyncio.create_subprocess_exec(
            "node",
            str(AUDIT),
            str(node_modules),
            f"{server.url}/graphql",
            operated.ours.secrets[Role.READ_ONLY],
            stdout=subprocess.PIPE,
        )
        output, _ = await asyncio.wait_for(audit.communicate(), 60)
    results: list[dict[str, Any]] = [json.loads(line) for line in output.splitlines()]

    assert [result for result in results if result["status"] != "ok"] == []
    assert Counter(result["status"] for result in results) == {"ok": 61}
