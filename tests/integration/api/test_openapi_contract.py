"""The OpenAPI document says what the API accepts and answers, checked with requests of Schemathesis."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import Case, CheckContext, Response
from schemathesis.checks import CHECKS, load_all_checks
from schemathesis.generation.feedback import FeedbackSources
from schemathesis.pytest._test_builder import build_operation_test
from schemathesis.pytest.plugin import make_constants_value_source
from schemathesis.schemas import APIOperation

from shardmill.api.meta import OPENAPI
from support.moto.cloud import Cloud
from support.moto.moto_cloud import TOKEN, moto_cloud
from support.wsgi import wsgi_app

# What the document allows can still conflict with other data (404, 409, 412, 413) or have these faults.
BEYOND_THE_SCHEMA = {
    "bad-cursor": "a cursor comes from the previous page",
    "name-mismatch": "the name in a document is that of the path",
    "both-spellings": "a field is given in one of its spellings",
    "bad-cron": "the grammar of cron expressions",
    "impossible-date": "a cron expression that never fires",
    "ambiguous-cron": "a cron expression with both kinds of days",
    "bad-timezone": "the IANA names",
    "bad-date": "the number of days of a month",
    "bad-time": "the number of days of a month",
    "no-times": "the times of a schedule",
    "future-time": "the time of the request",
    "too-many-times": "the times of a schedule",
    "bad-trigger-format": "what strftime makes of the format",
    "end-before-start": "the order of two dates",
    "no-tasks": "the number of tasks of a step",
    "duplicate-step": "steps have different names",
    "unknown-step": "steps name other steps",
    "later-phase": "steps name other steps",
    "cyclic-steps": "steps name other steps",
    "unknown-input": "a partition names an input",
    "duplicate-file": "files have different names",
    "bad-template": "the expression language",
    "bad-url": "the parts of a URL",
    "bad-topic": "the parts of an ARN",
    "bad-reference": "the names of secrets",
    "too-many-faults": "only the first faults are shown",
    "past-time": "the present time",
    "reserved-name": "names that differ in case only",
    "too-large": "the size of several fields together",
    "masked-value": "a mask stands for a saved value",
}
# Fields of a step whose rules depend on its type and on its other fields, and the request of a dry run, whose
# rules depend on its action.
DEPENDENT_FIELDS = re.compile(
    r"^/request\b|/(content|command|packConf|window|url)\b"
    r"|/(inputs|outputs|predata)/\d+/(name|origin|pattern)$"
)
CONFIG = {
    "seed": 1,
    "generation": {"allow-x00": False},
    "checks": {
        "positive_data_acceptance": {"expected-statuses": ["2xx", 404, 409, 412, 413, 422]},
        "negative_data_rejection": {"expected-statuses": [400, 401, 404, 405, 409, 412, 415, 422]},
    },
}
load_all_checks()
# Each request meets the data of those before it; one operation alone has two thousand requests.
pytestmark = [pytest.mark.xdist_group("openapi"), pytest.mark.timeout(300)]
_clouds: list[Cloud] = []
schema = schemathesis.openapi.from_path(OPENAPI, config=schemathesis.Config.from_dict(CONFIG))
schema.app = wsgi_app(lambda: _clouds[0])


@pytest.fixture(scope="module", autouse=True)
def _cloud() -> Iterator[None]:
    with moto_cloud() as cloud:
        _clouds.append(cloud)
        yield
        _clouds.clear()


def faults_beyond_the_schema(_: CheckContext, response: Response, case: Case) -> None:
    """A request that the document allows has no fault that the document could have named."""
    if case.meta is None or not case.meta.generation.mode.is_positive or response.status_code != 422:
        return
    wrong = [fault for fault in response.json()["faults"] if not _beyond_the_schema(fault)]
    assert not wrong, f"the document allows what is refused: {wrong}"


def _beyond_the_schema(fault: dict[str, str]) -> bool:
    about_the_path = fault["message"].startswith("differs from the URL")
    known = fault["code"] in BEYOND_THE_SCHEMA or about_the_path
    return known or DEPENDENT_FIELDS.search(fault["pointer"]) is not None


checked = [
    *map(
        CHECKS.get_one,
        (
            "not_a_server_error",
            "status_code_conformance",
            "content_type_conformance",
            "response_schema_conformance",
            "negative_data_rejection",
            "positive_data_acceptance",
        ),
    ),
    faults_beyond_the_schema,
]


@settings(max_examples=10, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
def _conforms(case: Case) -> None:
    case.call_and_validate(checks=checked, headers={"Authorization": f"Bearer {TOKEN}"})


operations = [each.ok() for each in schema.get_all_operations()]


@pytest.mark.parametrize("operation", operations, ids=[each.label for each in operations])
def test_requests_and_responses_conform_to_the_document(operation: APIOperation) -> None:
    """As `schema.parametrize()`, which makes all requests at the collection of tests, in each process."""
    constants = FeedbackSources(constants_value_source=make_constants_value_source(schema))
    build_operation_test(
        config=schema.config, operation=operation, test_func=_conforms, given_kwargs={}, feedback=constants
    )()
