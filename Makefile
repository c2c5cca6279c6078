.DEFAULT_GOAL := help
PYTHON ?= python3
UV := .venv/bin/uv
STAMP := .venv/.synced
SAM := .venv-sam/bin/sam

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | expand -t 12

$(UV):
	@echo "setup: creating .venv"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Shardmill needs Python 3.11 or newer; try make PYTHON=python3.11")'
	@$(PYTHON) -m venv .venv
	@.venv/bin/python -m pip install --quiet --disable-pip-version-check uv==0.13.7

$(STAMP): pyproject.toml uv.lock | $(UV)
	@echo "setup: installing the locked packages"
	@$(UV) sync --quiet --frozen --all-extras --inexact --compile-bytecode --python .venv/bin/python
	@touch $@

setup: $(STAMP)  ## make .venv with everything that is needed

demo: setup  ## run the example job on this machine and show what happens
	@.venv/bin/shardmill demo

test: setup  ## run all tests and print the thirty slowest
	@.venv/bin/pytest -n 3 --dist loadgroup --durations=30

check: lint types layers openapi-check sam  ## everything CI checks but the tests

lint: setup  ## formatting and lint
	@.venv/bin/ruff format --check --quiet .
	@.venv/bin/ruff check --quiet .

types: setup  ## types, strictly
	@.venv/bin/mypy
	@for app in functions/*/app.py; do .venv/bin/mypy --no-error-summary --config-file mk/mypy-functions.ini $$app || exit 1; done

layers: setup  ## import order of packages, entry points in functions/, sizes of modules
	@.venv/bin/lint-imports --no-logo
	@.venv/bin/python scripts/entry_points.py
	@.venv/bin/python scripts/module_sizes.py

openapi: setup  ## write the OpenAPI document anew
	@.venv/bin/python scripts/openapi.py

openapi-check: setup
	@.venv/bin/python scripts/openapi.py --check

BENCHMARKS := imports cost idle clock split laptop

bench: setup  ## measure the budgets: all, or those named (make bench imports laptop)
	@PYTHONPATH=tests .venv/bin/python -m benchmarks $(filter $(BENCHMARKS),$(MAKECMDGOALS))

$(BENCHMARKS):
	@:

clean:  ## remove everything that make and sam made
	rm -rf .venv .venv-sam .aws-sam .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

.PHONY: help setup demo test check lint types layers openapi openapi-check bench $(BENCHMARKS) sam clean

include mk/*.mk
