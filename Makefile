# Every target does its own set-up. Needed: Python 3.11 or newer, and make.

PYTHON ?= python3
BIN := .venv/bin
SETUP := .venv/.installed
MINUTES ?= 60

.DEFAULT_GOAL := help
.PHONY: help setup dev test lint bench bench-quick soak outages lock clean

help: ## Say what there is
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 22

setup: $(SETUP) ## Build .venv from the lock file

$(SETUP): requirements-dev.txt pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Ibex needs Python 3.11 or newer; say which: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	$(BIN)/python -m graphql_api.install_playground
	@touch $(SETUP)

dev: $(SETUP) ## Run everything here: embedded servers, a mock provider, simulated agents
	$(BIN)/ibex dev --demo

test: $(SETUP) ## Run the tests
	$(BIN)/python -m pytest

lint: $(SETUP) ## Check style, types and the direction of imports
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(SETUP) ## Measure, next to other gateways; writes docs/benchmarks.md
	$(BIN)/python tests/bench/run.py

bench-quick: $(SETUP) ## Measure in under two minutes
	$(BIN)/python tests/bench/run.py --quick

soak: $(SETUP) ## Torment it for MINUTES, then compare what was counted; writes docs/reliability.md
	PYTHONPATH=.:tests $(BIN)/python tests/soak/soak_run.py --minutes $(MINUTES) --keep

outages: $(SETUP) ## Break every part under traffic, on every Redis; writes the figures into docs/reliability.md
	$(BIN)/python -m pytest tests/gateway/outages --outages-page docs/reliability.md

lock: $(SETUP) ## Pin the newest versions that pyproject.toml allows
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate \
		--custom-compile-command "make lock" pyproject.toml --output-file requirements.txt
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate \
		--custom-compile-command "make lock" --all-extras pyproject.toml --output-file requirements-dev.txt

clean: ## Remove what set-up and runs have made, but for .ibex
	rm -rf .venv .bench build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis
