# Checks of the deployed resources and of the dependencies.
ASL_VALIDATOR := asl-validator@4.0.0
ASL_STAMP := .npm/.$(ASL_VALIDATOR)

audit: asl template-rules secret-scan vulnerabilities  ## state machines, template, secrets, known vulnerabilities

$(ASL_STAMP):
	@npm install --silent --no-audit --no-fund --no-save --prefix .npm $(ASL_VALIDATOR)
	@touch $@

ifneq ($(shell command -v npm),)
asl: setup $(ASL_STAMP)
	@.venv/bin/python scripts/state_machines.py .npm/statemachine
	@for each in .npm/statemachine/*.json; do \
		said=$$(.npm/node_modules/.bin/asl-validator --json-path $$each 2>&1) || { echo "$$said"; exit 1; }; done
else
asl:
	@echo "asl: NOT CHECKED: npm is not installed, so $(ASL_VALIDATOR) cannot run"
endif

template-rules: setup
	@.venv/bin/python scripts/template_rules.py

secret-scan: setup
	@.venv/bin/python scripts/secret_scan.py

# uv audit exits with 1 for vulnerabilities and with 2 for any other error; only an unreachable source is not
# a failure.
vulnerabilities: setup
	@said=$$($(UV) audit --frozen --preview-features audit-command $(AUDIT_OPTIONS) 2>&1) || { status=$$?; \
		case "$$said" in \
			*"error sending request"*) echo "vulnerabilities: NOT CHECKED: no source of advisories can be reached" ;; \
			*) echo "$$said"; exit $$status ;; \
		esac; }

.PHONY: audit asl template-rules secret-scan vulnerabilities
