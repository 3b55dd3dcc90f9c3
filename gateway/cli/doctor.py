"""`ibex doctor`: checks every connection and setting."""

import asyncio

import msgspec
import typer

from gateway.cli.operation import Json, reported, show
from gateway.doctor import Finding, examine, variables
from gateway.settings import Settings, environment


def register(app: typer.Typer) -> None:
    """Mount the command on the `ibex` command."""
    app.command("doctor")(doctor)


def doctor(*, as_json: Json = False) -> None:
    """Check every connection and setting; say what is wrong and how to mend it.

    The exit code is 1 if something fails. No secret is printed.
    """
    env = environment()
    with reported():
        settings = Settings.from_env(env)
    shown = variables(settings, env)
    findings = asyncio.run(examine(settings))
    is_healthy = all(finding.state != "fail" for finding in findings)
    report = {
        "healthy": is_healthy,
        "settings": shown,
        "findings": [msgspec.to_builtins(finding) for finding in findings],
    }
    lines = [f"{name}={value}" for name, value in shown.items()]
    text = "\n".join([*lines, "", *map(_line, findings)])
    show(report, as_json=as_json, text=text)
    raise typer.Exit(0 if is_healthy else 1)


def _line(finding: Finding) -> str:
    mend = f"\n      {finding.mend}" if finding.mend else ""
    return f"{finding.state:<6}{finding.name}: {finding.text}{mend}"
