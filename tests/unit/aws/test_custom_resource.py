"""The answer of the custom resource: CloudFormation waits for its own timeout if it does not get one."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from shardmill.aws import custom_resource
from shardmill.aws.custom_resource import MAX_ANSWER, responds_to_cloudformation
from shardmill.engine.groups import deployment

CREATED = {
    "RequestType": "Create",
    "ResponseURL": "https://cloudformation-custom-resource-response-example.s3.amazonaws.com/one?signature",
    "StackId": "arn:aws:cloudformation:us-east-1:123456789012:stack/mill/5f1b9f60-c52e-11ef-8d4c-0affc5f2",
    "RequestId": "f1c7ae50-6e8a-4b46-8f6e-a2dfb2a1ee4c",
    "LogicalResourceId": "Setup",
}


class CloudFormation:
    """Stands in for the presigned address to which the answer is sent."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.status = 200

    def request(self, method: str, url: str, **more: Any) -> SimpleNamespace:
        self.requests.append({"method": method, "url": url, **more})
        return SimpleNamespace(status=self.status)

    @property
    def answer(self) -> dict[str, Any]:
        [request] = self.requests
        found: dict[str, Any] = json.loads(request["body"])
        return found


@pytest.fixture
def cloudformation(monkeypatch: pytest.MonkeyPatch) -> CloudFormation:
    fake = CloudFormation()
    monkeypatch.setattr(custom_resource.urllib3, "PoolManager", lambda: fake)
    return fake


def run(event: dict[str, Any], error: Exception | None = None) -> None:
    def handler(event: dict[str, Any], context: Any) -> None:
        if error:
            raise error

    responds_to_cloudformation(handler)(event, None)  # type: ignore[arg-type]


def test_success_is_answered_with_the_ids_of_the_request(cloudformation: CloudFormation) -> None:
    run(CREATED)
    assert cloudformation.requests[0]["url"] == CREATED["ResponseURL"]
    assert cloudformation.requests[0]["method"] == "PUT"
    ids = {name: CREATED[name] for name in ("StackId", "RequestId", "LogicalResourceId")}
    expected = {"Status": "SUCCESS", "Reason": "done", "PhysicalResourceId": "Setup", **ids}
    assert cloudformation.answer == expected


def test_a_later_request_keeps_the_physical_id(cloudformation: CloudFormation) -> None:
    """CloudFormation would delete the resource as replaced, and with it all that the stack has."""
    run({**CREATED, "RequestType": "Update", "PhysicalResourceId": "as-before"})
    assert cloudformation.answer["PhysicalResourceId"] == "as-before"


@pytest.mark.parametrize("letter", ["x", '"', "\x00", "é", "\N{GRINNING FACE}"])
def test_a_long_reason_is_cut_to_what_cloudformation_accepts(
    cloudformation: CloudFormation, letter: str
) -> None:
    run(CREATED, ValueError(letter * 10_000))
    assert cloudformation.answer["Status"] == "FAILED"
    assert cloudformation.answer["Reason"].startswith(f"ValueError: {letter}")
    assert MAX_ANSWER / 2 < len(cloudformation.requests[0]["body"]) <= MAX_ANSWER


def test_an_answer_that_was_not_accepted_is_an_error_so_that_lambda_repeats_the_event(
    cloudformation: CloudFormation,
) -> None:
    cloudformation.status = 403
    with pytest.raises(RuntimeError, match="403"):
        run(CREATED)


def test_an_answer_is_sent_again_and_never_takes_all_the_time_that_is_left(
    cloudformation: CloudFormation,
) -> None:
    run(CREATED)
    [request] = cloudformation.requests
    timeout, retries = request["timeout"], request["retries"]
    assert 503 in retries.status_forcelist
    waits = sum(retries.backoff_factor * 2**number for number in range(retries.total))
    longest = (timeout.connect_timeout + timeout.read_timeout) * (retries.total + 1) + waits
    assert longest * 1000 < deployment.RESERVE_MS
