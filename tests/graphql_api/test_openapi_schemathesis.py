"""The REST API against its own document, by a tool that looks for where they differ."""

import asyncio
import os
import sys
from pathlib import Path

import pytest
from rest_server import Rest

CONFIG = Path(__file__).with_name("schemathesis.toml")
EXAMPLES = 50


@pytest.mark.parametrize("role", ["platform", "admin", "read_only"])
async def test_schemathesis_finds_no_failure(rest: Rest, tmp_path: Path, role: str) -> None:
    """Whatever is generated of /openapi.json, good or bad, is answered as it says."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(CONFIG), "run"),
        *(f"{rest.url}/openapi.json", "--header", f"Authorization: Bearer {rest.key(role)}"),
        *("--max-examples", str(EXAMPLES), "--no-color"),
        cwd=tmp_path,  # it keeps notes where it runs
        env={
            **os.environ,
            "ORGANIZATION_ID": rest.world.ours.id,
            "AGENT_ID": rest.world.ours.agent_id,
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()

    assert process.returncode == 0, output.decode()
    assert b"Tested: 20" in output
