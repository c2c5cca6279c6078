.DEFAULT_GOAL := help
PYTHON ?= python3
UV := .venv/bin/uv
STAMP := .venv/.synced
SAM := .venv-sam/bin/sam

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort

$(UV):
	@echo "setup: creating .venv"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Shardmill needs Python 3.11 or newer; try make PYTHON=python3.11")'
	@$(PYTHON) -m venv .venv
	@.venv/bin/python -m pip install --quiet --disable-pip-version-check uv==0.13.7

$(STAMP): pyproject.toml uv.lock | $(UV)
	@echo "setup: installing the locked packages"
	@$(UV) sync --quiet --frozen --all-extras --inexact --python .venv/bin/python
	@touch $@

setup: $(STAMP)  ## make .venv with everything that is needed
