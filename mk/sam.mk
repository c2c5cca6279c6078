# SAM has an environment of its own: it pins a different boto3 than the laptop cloud.
SAM_STAMP := .venv-sam/.synced
LAYER_REQUIREMENTS := layers/core/requirements.txt
ARCHITECTURE ?= arm64
LAMBDA_PYTHON := 3.13
# uv stops at a shim of pyenv whose version is not selected, so pyenv's own folder is searched next.
FIND_PYTHON = $(UV) python find --quiet --no-project $(LAMBDA_PYTHON) 2>/dev/null || \
	ls -d "$$(pyenv root 2>/dev/null)"/versions/$(LAMBDA_PYTHON).*/bin/python 2>/dev/null | tail -1 | grep .
BUILT := .aws-sam/build/template.yaml
HOST_LAYER := .aws-sam/host
HOST_MACHINE := $(if $(filter aarch64 arm64,$(shell uname -m)),arm64,x86_64)

$(SAM_STAMP): pyproject.toml uv.lock | $(STAMP)
	@echo "setup: installing sam"
	@UV_PROJECT_ENVIRONMENT=.venv-sam $(UV) sync --quiet --frozen --only-group sam --python .venv/bin/python
	@touch $@

$(LAYER_REQUIREMENTS): pyproject.toml uv.lock | $(STAMP)
	@$(UV) export --quiet --frozen --no-dev --no-emit-project --no-annotate --no-header --prune boto3 --output-file $@
	@touch $@

# The layer contains bytecode of the functions' Python, which uv finds or installs. Without it the layer works, and
# cold starts compile the code.
sam: $(SAM_STAMP) $(LAYER_REQUIREMENTS)  ## validate template.yaml and build it for AWS
	@SAM_CLI_TELEMETRY=0 AWS_DEFAULT_REGION=us-east-1 $(SAM) validate --lint
	@{ $(FIND_PYTHON); } >/dev/null || $(UV) python install --quiet $(LAMBDA_PYTHON) 2>/dev/null || \
		echo "Python $(LAMBDA_PYTHON) cannot be installed here: the layer is built without bytecode"
	@SAM_CLI_TELEMETRY=0 ARCHITECTURE=$(ARCHITECTURE) PIP=$(CURDIR)/.venv/bin/pip LAMBDA_PYTHON=$(LAMBDA_PYTHON) \
		COMPILER=$$($(FIND_PYTHON)) \
		$(SAM) build --parameter-overrides Architecture=$(ARCHITECTURE)

# Import every handler of the build with the functions' Python, or, where it is missing, with the one of .venv. The wheels
# of the layer are for Linux.
ifeq ($(shell uname -s),Linux)
sam-start: sam
	@python=$$($(FIND_PYTHON)) || { python=.venv/bin/python; echo "sam-start: Python $(LAMBDA_PYTHON) is missing; using $$($$python -V)"; }; \
	version=$$($$python -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
	rm -rf $(HOST_LAYER) && $(MAKE) -s -C layers/core build-CoreLayer ARTIFACTS_DIR=$(CURDIR)/$(HOST_LAYER) \
		PIP=$(CURDIR)/.venv/bin/pip ARCHITECTURE=$(HOST_MACHINE) LAMBDA_PYTHON=$$version && \
	.venv/bin/python scripts/built_functions.py --template $(BUILT) --architecture $(ARCHITECTURE) \
		--python $$python --layer $(HOST_LAYER)
else
sam-start: sam
	@echo "sam-start: NOT CHECKED: the handlers of the build can be imported on Linux only"
endif

HOST ?= host.docker.internal

sam-local: setup  ## write the environment of `sam local invoke` for a running `shardmill dev`
	@.venv/bin/python -m scripts.sam_local --host $(HOST)

deploy: stack-named sam  ## deploy to AWS: make deploy STACK=shardmill REGION=eu-west-1 [PARAMETERS="Name=value …"] [TAGS="name=value …"] [NEW_TOKEN=1]
	@.venv/bin/python scripts/deploy.py --stack $(STACK) --region $(REGION) $(if $(NEW_TOKEN),--new-token) \
		$(foreach each,Architecture=$(ARCHITECTURE) $(PARAMETERS),--parameter '$(each)') $(foreach each,$(TAGS),--tag '$(each)')

undeploy: stack-named $(SAM_STAMP)  ## delete the stack: make undeploy STACK=shardmill REGION=eu-west-1
	@SAM_CLI_TELEMETRY=0 $(SAM) delete --stack-name $(STACK) --region $(REGION) --no-prompts

stack-named:
	@test -n "$(STACK)" && test -n "$(REGION)" || { echo "usage: make deploy|undeploy STACK=shardmill REGION=eu-west-1"; exit 2; }

.PHONY: sam-start sam-local deploy undeploy stack-named
