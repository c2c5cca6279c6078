"""Dead letters: what fails finally is kept, listed, shown, and redriven without loss."""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError
from moto.sqs.models import sqs_backends

from shardmill.engine import dead_letters
from support.aws_rules.call import Call, ProcessKilled
from support.aws_rules.faults import Faults, How, Rerun, everywhere_once
from support.fakes.lambda_server import FunctionError
from support.moto.cloud import Cloud
from support.moto.moto_cloud import moto_cloud
from support.moto.stack import ACCOUNT, REGION
from support.scenarios.job_runner import JobRunner

EVENT = {
    "version": "0",
    "id": "5a1c7a52-6a0e-4d5c-9f0f-0123456789ab",
    "detail-type": "Order Placed",
    "source": "shop",
    "detail": {"jobName": "orders", "params": {"day": "ü"}},
}
NOTIFICATION = {"notice": 0, "occasion": "failure", "kind": "Job Ended", "detail": {"jobName": "gone"}}
STEP = {"stepName": "a"}
FAULTS = (ClientError, BotoCoreError, FunctionError, ProcessKilled)


def letters(cloud: Cloud, **query: Any) -> list[dict[str, Any]]:
    parameters = "&".join(f"{name}={value}" for name, value in query.items())
    answer = cloud.http("GET", f"/v1/dead-letters?{parameters}")
    assert answer.status == 200, answer
    items: list[dict[str, Any]] = answer.json["items"]
    return items


def redrive(cloud: Cloud, letter: dict[str, Any]) -> int:
    return cloud.http("POST", f"/v1/dead-letters/{letter['id']}:redrive").status


def jobs(cloud: Cloud) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = cloud.http("GET", "/v1/jobs").json["items"]
    return items


def send(cloud: Cloud, queue: str, *bodies: str) -> None:
    for body in bodies:
        cloud.clients.sqs.send_message(QueueUrl=cloud.environment[f"SHARDMILL_{queue}"], MessageBody=body)


def depth(cloud: Cloud, queue: str) -> int:
    """The messages of a queue, hidden ones included."""
    names: Any = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    url = cloud.environment[f"SHARDMILL_{queue}"]
    attributes = cloud.clients.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    return sum(map(int, attributes.values()))


def test_an_event_for_an_unknown_definition_is_redriven_after_the_definition_is_saved(
    runner: JobRunner,
) -> None:
    cloud = runner.cloud
    cloud.invoke_async("submit", EVENT)
    assert [name for name, _ in cloud.functions.invoked].count("submit") == 3
    [letter] = letters(cloud)
    assert letter["source"] == "submit"
    assert letter["reason"].startswith("DefinitionNotFound: there is no definition named 'orders'")
    shown = cloud.http("GET", f"/v1/dead-letters/{letter['id']}").json
    assert shown == {**letter, "payload": EVENT}
    assert letter["size"] == len(json.dumps(EVENT))

    runner.define(STEP)
    assert redrive(cloud, letter) == 200
    [job] = cloud.run_until(lambda: jobs(cloud))
    assert (job["jobName"], job["trigger"]) == ("orders", EVENT["id"])
    assert letters(cloud) == []
    assert depth(cloud, "SUBMIT_DEAD_QUEUE") == 0


def test_a_letter_that_fails_again_returns_with_another_id(runner: JobRunner) -> None:
    runner.cloud.invoke_async("submit", EVENT)
    [first] = letters(runner.cloud)
    assert redrive(runner.cloud, first) == 200
    [second] = runner.cloud.run_until(lambda: letters(runner.cloud))
    assert second["id"] != first["id"]
    assert redrive(runner.cloud, first) == 404


def test_a_request_without_a_trigger_keeps_that_of_its_failed_invocation(runner: JobRunner) -> None:
    """A rule may send a JobRequest instead of its event; each invocation has another request id."""
    cloud = runner.cloud
    cloud.invoke_async("submit", {"jobName": "orders"})
    [letter] = letters(cloud)
    payload = cloud.http("GET", f"/v1/dead-letters/{letter['id']}").json["payload"]
    runner.define(STEP)
    cloud.invoke_async("submit", payload)
    assert redrive(cloud, letter) == 200
    [job] = cloud.run_until(lambda: len(submits(cloud)) == 5 and jobs(cloud))
    assert job["trigger"] == payload["trigger"]


def submits(cloud: Cloud) -> list[Any]:
    return [event for name, event in cloud.functions.invoked if name == "submit"]


def test_an_event_that_lambda_could_not_run_in_time_has_no_response(cloud: Cloud) -> None:
    context = {"requestId": "r", "condition": "EventAgeExceeded", "approximateInvokeCount": 0}
    record = {"requestContext": context, "requestPayload": EVENT, "responsePayload": None}
    send(cloud, "SUBMIT_DEAD_QUEUE", json.dumps(record), "not json", "[]", '"text"')
    assert sorted(letter["reason"] for letter in letters(cloud)) == [
        "Lambda gave up the event: EventAgeExceeded",
        *["the record of the failed event cannot be read"] * 3,
    ]


def test_a_notification_returns_to_its_queue(cloud: Cloud) -> None:
    send(cloud, "NOTIFY_DEAD_QUEUE", json.dumps(NOTIFICATION))
    [letter] = letters(cloud)
    assert letter["source"] == "notification"
    assert redrive(cloud, letter) == 200
    url = cloud.environment["SHARDMILL_NOTIFY_QUEUE"]
    [message] = cloud.clients.sqs.receive_message(QueueUrl=url)["Messages"]
    assert json.loads(message["Body"]) == NOTIFICATION
    assert letters(cloud) == []


@pytest.mark.parametrize("body", ["<xml/>", "[" * 100_000])
def test_a_task_message_that_cannot_be_read_is_deleted_only(cloud: Cloud, body: str) -> None:
    send(cloud, "DEAD_QUEUE", body)
    [letter] = letters(cloud)
    path = f"/v1/dead-letters/{letter['id']}"
    assert cloud.http("GET", path).json["payload"] == body
    refused = cloud.http("POST", f"{path}:redrive")
    assert (refused.status, refused.json["code"]) == (409, "not-redrivable")
    assert cloud.http("DELETE", path).status == 204
    assert cloud.http("DELETE", path).status == 404
    assert letters(cloud) == []


def test_the_list_is_paged_newest_first(cloud: Cloud) -> None:
    send(cloud, "DEAD_QUEUE", *(f"m{number}" for number in range(25)))
    seen: list[str] = []
    cursor = ""
    while True:
        page = cloud.http("GET", f"/v1/dead-letters?limit=10{cursor}").json
        seen += [letter["id"] for letter in page["items"]]
        if not page["cursor"]:
            break
        cursor = f"&cursor={page['cursor']}"
    assert (len(seen), seen) == (25, sorted(seen, reverse=True))


def test_one_list_takes_a_limited_number_of_letters(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "MAX_BATCHES", 1)
    send(cloud, "DEAD_QUEUE", *(f"m{number}" for number in range(15)))
    assert [len(letters(cloud)), len(letters(cloud))] == [10, 15]


def test_listing_nothing_costs_one_call_for_each_queue_and_one_for_the_rows(
    cloud: Cloud, faults: Faults
) -> None:
    assert letters(cloud) == []
    assert sorted(call.operation for call in faults.calls) == ["GetQueueAttributes"] * 3 + ["Query"]


@pytest.mark.parametrize(
    "letter_id",
    ["x", "0", "-", "1-", "%2e%2e%2f", "1-a%2Fb", "1-" + "a" * 3000, "..", "1-ü", "1%00-a", "1-a:b", "९-a"],
)
@pytest.mark.parametrize(("method", "action"), [("GET", ""), ("POST", ":redrive"), ("DELETE", "")])
def test_ids_that_do_not_exist_are_not_found(cloud: Cloud, letter_id: str, method: str, action: str) -> None:
    answer = cloud.http(method, f"/v1/dead-letters/{letter_id}{action}")
    assert answer.status == 404, answer


def test_two_concurrent_redrives_submit_one_job(runner: JobRunner, faults: Faults) -> None:
    cloud = runner.cloud
    cloud.invoke_async("submit", EVENT)
    [letter] = letters(cloud)
    runner.define(STEP)
    others: list[int] = []

    def redrive_meanwhile(call: Call, proceed: Callable[[Call], dict[str, Any]]) -> dict[str, Any]:
        if call.operation == "Invoke" and not others:
            others.append(0)
            others[0] = redrive(cloud, letter)
        return proceed(call)

    faults.add_rule(redrive_meanwhile)
    assert [redrive(cloud, letter), *others] == [200, 200]
    cloud.run_until(lambda: len(submits(cloud)) == 5)
    assert len(cloud.run_until(lambda: jobs(cloud))) == 1
    assert letters(cloud) == []


def test_a_letter_that_is_received_twice_is_listed_once(cloud: Cloud, faults: Faults) -> None:
    send(cloud, "DEAD_QUEUE", "m")
    failed = faults.fail("sqs", "DeleteMessageBatch", times=1)
    [first] = letters(cloud)
    assert failed.hits == 1
    show_hidden(cloud, "DEAD_QUEUE")
    assert letters(cloud) == [first]
    assert depth(cloud, "DEAD_QUEUE") == 0


def show_hidden(cloud: Cloud, queue: str) -> None:
    """Let the visibility timeout of the messages of a queue pass."""
    name = cloud.environment[f"SHARDMILL_{queue}"].rsplit("/", 1)[-1]
    for message in sqs_backends[ACCOUNT][REGION].queues[name]._messages:
        message.change_visibility(0)


@pytest.mark.parametrize("how", ["before", "after", "crash"])
def test_no_letter_is_lost_when_any_single_call_fails(how: How) -> None:
    def of_the_api(call: Call) -> bool:
        return call.service in ("sqs", "s3", "lambda") or call.operation in ("BatchWriteItem", "DeleteItem")

    runs = everywhere_once(ways=(how,), only=of_the_api)
    assert sum(_submits_one_job(run) for run in runs) >= 7


def _submits_one_job(run: Rerun) -> bool:
    with run, moto_cloud() as cloud:
        runner = JobRunner(cloud)
        cloud.invoke_async("submit", EVENT)
        runner.define(STEP)
        with run.armed(), suppress(*FAULTS):
            found = cloud.http("GET", "/v1/dead-letters").json.get("items", [])
            for letter in found:
                redrive(cloud, letter)

        def try_again() -> None:
            show_hidden(cloud, "SUBMIT_DEAD_QUEUE")
            for letter in letters(cloud):
                redrive(cloud, letter)

        cloud.run_until(lambda: jobs(cloud) and not depth(cloud, "SUBMIT_DEAD_QUEUE"), meanwhile=try_again)
        try_again()
        assert letters(cloud) == []
        assert [job["trigger"] for job in jobs(cloud)] == [EVENT["id"]]
    return True
