"""The GraphQL schema, asked for everything that a tool can generate of it."""

import asyncio
import os
import sys
from pathlib import Path

import pytest
from graphql_server import graphql_server
from operators import World

from db.api_keys import Role
from graphql_api.auth import Authenticator

HERE = Path(__file__).parent
EXAMPLES = 40


@pytest.mark.parametrize("role", [Role.PLATFORM, Role.ADMIN, Role.READ_ONLY])
async def test_whatever_the_schema_allows_is_answered_or_refused_by_a_code(
    operated: World, tmp_path: Path, role: Role
) -> None:
    """Schemathesis finds no query or mutation that ends in a fault of ours."""
    key = {Role.PLATFORM: operated.platform_key, **operated.ours.secrets}[role]
    async with graphql_server(operated.management, Authenticator(operated.repository)) as server:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "schemathesis.cli", "run", f"{server.url}/graphql"),
            *("--header", f"Authorization: Bearer {key}"),
            *("--checks", "refused_by_code_or_answered,response_schema_conformance"),
            *("--max-examples", str(EXAMPLES), "--no-color"),
            cwd=tmp_path,  # it keeps notes where it runs
            env={
                **os.environ,
                "PYTHONPATH": str(HERE),
                "SCHEMATHESIS_HOOKS": "graphql_checks",
            },
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()

    assert process.returncode == 0, output.decode()
    assert b"Tested: 12" in output
