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

setup: $(STAMP)  ## create .venv with all dependencies

demo: setup  ## run an example job on this machine
	@.venv/bin/shardmill demo

test: setup  ## run all tests and print the thirty slowest; with RECORD=1, record requests for make judge
	@$(if $(RECORD),rm -rf $(RECORDINGS))
	@.venv/bin/pytest -n 6 --dist loadgroup --durations=30 $(if $(RECORD),--record-dynamodb=$(RECORDINGS))

retest: setup  ## run the tests that failed last time again, one after the other
	@.venv/bin/pytest --last-failed --last-failed-no-failures none --maxfail 1 -v

check: lint types layers openapi-check audit sam sam-start  ## run every check of CI except the tests

lint: setup  ## check formatting and lint rules
	@.venv/bin/ruff format --check --quiet .
	@.venv/bin/ruff check --quiet .

types: setup  ## check types with mypy
	@.venv/bin/mypy
	@.venv/bin/mypy --no-error-summary --config-file mk/mypy-functions.ini --explicit-package-bases functions

layers: setup  ## import order of packages, entry points in functions/, sizes of modules
	@.venv/bin/lint-imports --no-logo
	@.venv/bin/python scripts/entry_points.py
	@.venv/bin/python scripts/module_sizes.py

openapi: setup  ## regenerate the OpenAPI document
	@.venv/bin/python scripts/openapi.py

openapi-check: setup
	@.venv/bin/python scripts/openapi.py --check

BENCHMARKS := imports cost idle clock split laptop http priorities

bench: setup  ## measure the budgets: all, or those named (make bench imports laptop)
	@PYTHONPATH=tests .venv/bin/python -m benchmarks $(filter $(BENCHMARKS),$(MAKECMDGOALS))

$(BENCHMARKS):
	@:

clean:  ## remove generated files and environments
	rm -rf .venv .venv-sam .npm .aws-sam .fidelity .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

.PHONY: help setup demo test retest check lint types layers openapi openapi-check bench $(BENCHMARKS) sam clean

include mk/*.mk
