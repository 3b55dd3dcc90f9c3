"""`python -m gateway` is the `ibex` command."""

from gateway.cli import main

main()
