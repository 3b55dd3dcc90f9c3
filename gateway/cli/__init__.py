"""The `ibex` command."""

import typer

from gateway.cli import dev, doctor, provision, serve

app = typer.Typer(
    help="A gateway between AI agents and LLM providers, with budgets that hold.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
dev.register(app)
serve.register(app)
provision.register(app)
doctor.register(app)


def main() -> None:
    """Run the command."""
    app(prog_name="ibex")
