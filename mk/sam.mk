# SAM has an environment of its own: it pins another boto3 than the laptop cloud does.
SAM_STAMP := .venv-sam/.synced
LAYER_REQUIREMENTS := layers/core/requirements.txt

$(SAM_STAMP): pyproject.toml uv.lock | $(STAMP)
	@echo "setup: installing sam"
	@UV_PROJECT_ENVIRONMENT=.venv-sam $(UV) sync --quiet --frozen --only-group sam --python .venv/bin/python
	@touch $@

$(LAYER_REQUIREMENTS): pyproject.toml uv.lock | $(STAMP)
	@$(UV) export --quiet --frozen --no-dev --no-emit-project --no-annotate --no-header --prune boto3 --output-file $@
	@touch $@

sam: $(SAM_STAMP) $(LAYER_REQUIREMENTS)  ## validate template.yaml and build it for AWS
	@SAM_CLI_TELEMETRY=0 AWS_DEFAULT_REGION=us-east-1 $(SAM) validate --lint
	@SAM_CLI_TELEMETRY=0 PYTHON=$(CURDIR)/.venv/bin/python PATH=$(CURDIR)/.venv/bin:$$PATH $(SAM) build
