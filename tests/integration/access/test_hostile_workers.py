"""Workers with false requests: tasks that they never held, receipts of others, or too much data."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from shardmill.aws.queues import Ticket
from support.aws_rules.faults import Faults
from support.moto.cloud import Cloud
from support.moto.http_api import Answer
from support.moto.moto_cloud import moto_cloud
from support.scenarios.access import Caller
from support.scenarios.job_runner import JobRunner

MD5 = "1B2M2Y8AsgTpgAmY7PhCfg=="


@dataclass
class HttpWorker:
    """A worker over HTTP with a token of its own."""

    call: Caller
    id: str
    session: int

    def lease(self, most: int = 1) -> list[dict[str, Any]]:
        body = {"workerId": self.id, "session": self.session, "max": most, "waitSeconds": 0}
        answer = self.call("POST", "/v1/work:lease", body)
        assert answer.status == 200, answer
        items: list[dict[str, Any]] = answer.json["items"]
        return items

    def report(self, lease: dict[str, Any], **changes: Any) -> Answer:
        result = {name: lease[name] for name in ("taskId", "attempt", "receipt")} | {"outcome": "success"}
        return self.call("POST", "/v1/work:report", {"workerId": self.id, "results": [result | changes]})

    def beat(self, *tasks: dict[str, Any]) -> Answer:
        work = [{"taskId": each["taskId"], "attempt": each["attempt"], "run": each["run"]} for each in tasks]
        return self.call("POST", f"/v1/workers/{self.id}:heartbeat", {"session": self.session, "work": work})

    def urls(self, lease: dict[str, Any], **what: Any) -> Answer:
        body = {"workerId": self.id, **{name: lease[name] for name in ("taskId", "attempt", "run")}, **what}
        return self.call("POST", "/v1/work:urls", body)


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    with moto_cloud() as started:
        for group in ("mine", "theirs"):
            assert started.http("PUT", f"/v1/groups/{group}", {}).status == 201
        yield started


@pytest.fixture(scope="module")
def runner(cloud: Cloud) -> JobRunner:
    return JobRunner(cloud)


def a_worker(cloud: Cloud, name: str, group: str) -> HttpWorker:
    body = {"name": name, "scopes": [{"scope": "worker", "groups": [group]}]}
    caller = Caller(cloud, cloud.http("POST", "/v1/tokens", body).json["token"])
    about = {"name": name, "groups": [group], "host": "h", "cores": 1, "apps": ["*"], "slots": 10}
    made = caller("POST", "/v1/workers", about)
    assert made.status == 201, made
    return HttpWorker(caller, made.json["id"], made.json["session"])


@dataclass
class Stage:
    honest: HttpWorker
    hostile: HttpWorker
    held: dict[str, Any]
    name: str


@pytest.fixture
def stage(cloud: Cloud, runner: JobRunner, request: pytest.FixtureRequest) -> Stage:
    """An honest worker that holds a task, and a hostile one with its own token in the same group."""
    name = f"job-{abs(hash(request.node.name))}"
    group = f"g{abs(hash(request.node.name)) % 10**9}"
    cloud.http("PUT", f"/v1/groups/{group}", {})
    runner.define({"stepName": "a", "content": "x", "sharding": 2}, name=name, workerGroup=group)
    runner.submit(name=name)
    honest, hostile = a_worker(cloud, f"{group}-h", group), a_worker(cloud, f"{group}-l", group)
    cloud.run_until(lambda: runner.states(name=name) == {"a": "READY"}, 20)
    [held] = honest.lease()
    return Stage(honest, hostile, held, name)


def test_a_worker_cannot_report_a_task_that_another_worker_holds(stage: Stage, runner: JobRunner) -> None:
    answer = stage.hostile.report(stage.held)
    assert (answer.status, answer.json["code"]) == (409, "foreign-attempt")
    assert stage.hostile.report(stage.held, attempt=stage.held["attempt"] + 1).status == 409
    forged = json.loads(stage.held["receipt"][32:])
    forged[3] = forged[3].replace(stage.honest.id, stage.hostile.id)
    assert stage.hostile.report(stage.held, receipt=json.dumps(forged)).status == 409
    assert runner.task("a", 0, name=stage.name)["state"] == "RUNNING"
    assert stage.honest.report(stage.held).status == 200


def test_a_worker_cannot_act_as_another(stage: Stage) -> None:
    as_other = HttpWorker(stage.hostile.call, stage.honest.id, stage.honest.session)
    for answer in (
        as_other.report(stage.held),
        as_other.beat(stage.held),
        as_other.urls(stage.held, prepare=True),
        as_other.call("POST", "/v1/work:lease", {"workerId": as_other.id, "session": as_other.session}),
    ):
        assert (answer.status, answer.json["code"]) == (404, "worker-not-found")
    about = {"name": "x", "groups": ["theirs"], "host": "h", "cores": 1, "apps": ["*"], "slots": 1}
    assert stage.hostile.call("POST", "/v1/workers", about).status == 403


def test_a_worker_cannot_take_over_the_name_and_tasks_of_a_live_worker(stage: Stage, cloud: Cloud) -> None:
    """Its token covers the group, so it may replace a worker that is offline."""
    known = cloud.http("GET", f"/v1/workers/{stage.honest.id}").json
    about = {"groups": known["groups"], "host": "h", "cores": 1, "apps": ["*"], "slots": 1}
    answer = stage.hostile.call("POST", "/v1/workers", {"name": known["name"], **about})
    assert (answer.status, answer.json["code"]) == (403, "forbidden")
    assert HttpWorker(stage.hostile.call, stage.honest.id, 2).urls(stage.held, prepare=True).status == 404
    assert stage.honest.call("POST", "/v1/workers", {"name": known["name"], **about}).status == 201
    beat = {"session": 2, "work": [], "offline": True}
    assert stage.honest.call("POST", f"/v1/workers/{stage.honest.id}:heartbeat", beat).status == 200
    assert stage.hostile.call("POST", "/v1/workers", {"name": known["name"], **about}).status == 201


def test_a_worker_gets_another_token_when_its_own_was_revoked(stage: Stage, cloud: Cloud) -> None:
    known = cloud.http("GET", f"/v1/workers/{stage.honest.id}").json
    about = {"name": known["name"], "groups": known["groups"], "host": "h", "cores": 1, "apps": ["*"]}
    [token] = [
        each for each in cloud.http("GET", "/v1/tokens").json["items"] if each["name"] == known["name"]
    ]
    assert stage.hostile.call("POST", "/v1/workers", about).status == 403
    assert cloud.http("DELETE", f"/v1/tokens/{token['id']}").status == 204
    assert stage.hostile.call("POST", "/v1/workers", about).status == 201


def test_a_worker_cannot_claim_or_return_a_task_that_it_never_held(stage: Stage, runner: JobRunner) -> None:
    answer = stage.hostile.beat(stage.held)
    assert (answer.status, answer.json["code"]) == (409, "foreign-task")
    task = {name: stage.held[name] for name in ("taskId", "attempt", "receipt")}
    for receipt in (task["receipt"], task["receipt"][32:]):
        body = {"workerId": stage.hostile.id, "tasks": [{**task, "receipt": receipt}]}
        assert stage.hostile.call("POST", "/v1/work:release", body).json["items"] == []
    assert runner.task("a", 0, name=stage.name)["state"] == "RUNNING"


def test_a_worker_gets_no_files_or_checkpoints_of_a_task_that_it_does_not_hold(stage: Stage) -> None:
    for what in (
        {"prepare": True},
        {"stream": "stdout"},
        {"store": [{"name": "x", "size": 1, "md5S": [MD5]}]},
    ):
        answer = stage.hostile.urls(stage.held, **what)
        assert (answer.status, answer.json["code"]) == (409, "stale-attempt")
        assert answer.json["detail"] == (  # not the name of its step
            f"worker '{stage.hostile.id}' does not hold attempt 1 of the task {stage.held['taskId']}"
        )
    body = {"workerId": stage.hostile.id, **{name: stage.held[name] for name in ("taskId", "attempt", "run")}}
    assert stage.hostile.call("POST", "/v1/work:checkpoint", {**body, "data": "eA=="}).status == 409


def test_a_receipt_deletes_only_the_message_of_its_own_task(stage: Stage, cloud: Cloud) -> None:
    """A report with a receipt of another task would delete that task's message, or one of any queue."""
    [own] = stage.hostile.lease()
    other = json.loads(stage.held["receipt"][32:])
    sqs = cloud.clients.sqs
    for receipt in (stage.held["receipt"], json.dumps(other), own["receipt"][:32] + json.dumps(other)):
        assert stage.hostile.report(own, receipt=receipt).status == 200, "the task ends nevertheless"
    hidden = sqs.get_queue_attributes(
        QueueUrl=other[1], AttributeNames=["ApproximateNumberOfMessagesNotVisible"]
    )["Attributes"]["ApproximateNumberOfMessagesNotVisible"]
    assert int(hidden) == 2, "the message of the other task, and the one that was not deleted"
    assert stage.honest.report(stage.held).status == 200


def test_forged_messages_lease_nothing_and_delete_nothing(
    stage: Stage, cloud: Cloud, runner: JobRunner
) -> None:
    """A worker that waits at SQS brings messages; these were never received, or belong to another queue."""
    _, queue, handle, _, gen = json.loads(stage.held["receipt"][32:])
    job_id = stage.held["taskId"].partition("_")[0]
    other = a_worker(cloud, f"{stage.name}-other", "theirs")
    theirs = runner.mill.groups.get("theirs")
    assert theirs is not None
    bodies = [
        Ticket(job_id, 1, 0, gen, 0),
        Ticket(job_id, 1, 0, gen + 1, 1),
        Ticket(job_id, 2, 0, gen, 1),
        Ticket(job_id, 1, 7, gen, 1),
        Ticket("nobody", 1, 0, gen, 1),
    ]
    waiting = in_queue(cloud, queue)
    for name in (queue.rsplit("/", 1)[1], theirs.queues[0].rsplit("/", 1)[1], "no-such-queue", "../x"):
        for ticket in bodies:
            message = {"queue": name, "receipt": handle, "body": ticket.encode()}
            body = {"workerId": other.id, "session": other.session, "max": 1, "messages": [message]}
            answer = other.call("POST", "/v1/work:lease", body)
            assert (answer.status, answer.json.get("items", [])) in ((200, []), (409, []), (422, [])), answer
            again = stage.hostile.call(
                "POST",
                "/v1/work:lease",
                body | {"workerId": stage.hostile.id, "session": stage.hostile.session},
            )
            assert all(item["taskId"] != stage.held["taskId"] for item in again.json.get("items", []))
    assert in_queue(cloud, queue) == waiting
    assert runner.task("a", 0, name=stage.name)["attempt"] == stage.held["attempt"]
    assert stage.honest.report(stage.held).status == 200


def in_queue(cloud: Cloud, queue: str) -> int:
    """How many messages a queue has, visible or not."""
    names: Any = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    found = cloud.clients.sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=names)["Attributes"]
    return sum(map(int, found.values()))


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/work:lease", {}),
        ("/v1/work:report", {"results": [{"taskId": "x", "attempt": 1, "outcome": "success"}]}),
        ("/v1/work:release", {"tasks": [{"taskId": "x", "attempt": 1, "receipt": "y"}]}),
        ("/v1/work:urls", {"taskId": "x", "attempt": 1, "run": 1, "prepare": True}),
        ("/v1/work:checkpoint", {"taskId": "x", "attempt": 1, "run": 1}),
    ],
)
def test_ids_that_do_not_fit_into_a_key_are_not_looked_up(
    flooding: HttpWorker, faults: Faults, path: str, body: dict[str, Any]
) -> None:
    """DynamoDB rejects a key of more than 2,048 bytes, also for an administrator."""
    for caller in (flooding.call, Caller(flooding.call.cloud, flooding.call.cloud.token)):
        faults.calls.clear()
        answer = caller("POST", path, {"workerId": "w" * 3_000, **body})
        assert (answer.status, answer.json["faults"][0]["pointer"]) == (422, "/workerId")
        assert "w" * 1_100 not in str([call.params for call in faults.calls])


@pytest.fixture(scope="module")
def flooding(cloud: Cloud) -> HttpWorker:
    return a_worker(cloud, "flood", "mine")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/work:report", {"results": [{"taskId": "x", "attempt": 1, "outcome": "success"}] * 5_001}),
        ("/v1/work:report", {"results": []}),
        ("/v1/work:report", {"results": [{"taskId": "x", "attempt": -1, "outcome": "success"}]}),
        ("/v1/work:report", {"results": [{"taskId": "x", "attempt": 10**40, "outcome": "success"}]}),
        ("/v1/work:lease", {"max": 5_001}),
        ("/v1/work:lease", {"session": 10**60}),
        ("/v1/work:lease", {"waitSeconds": 10**6}),
        ("/v1/work:urls", {"taskId": "x", "attempt": 1, "run": 1, "stream": "stdout", "chunks": 10**6}),
        ("/v1/work:release", {"tasks": [{"taskId": "x", "attempt": 1, "receipt": "y"}] * 1001}),
        ("/v1/work:checkpoint", {"taskId": "x", "attempt": 1, "run": 1, "data": "A" * 100_000}),
    ],
)
def test_a_worker_that_sends_too_much_is_rejected(
    flooding: HttpWorker, path: str, body: dict[str, Any]
) -> None:
    worker = flooding
    assert worker.call("POST", path, {"workerId": worker.id, **body}).status == 422
    beat = {"session": worker.session, "work": [{"taskId": "x" * 100, "attempt": 1}] * 20_000}
    assert worker.call("POST", f"/v1/workers/{worker.id}:heartbeat", beat).status in (413, 422)
    for session in (10**60, -(10**60)):
        beat = {"session": session, "work": []}
        assert worker.call("POST", f"/v1/workers/{worker.id}:heartbeat", beat).status == 422


def test_presigned_addresses_are_for_one_object_and_fifteen_minutes(stage: Stage) -> None:
    [item] = stage.honest.urls(stage.held, stream="stdout").json["items"]
    parts = urlsplit(item["url"])
    query = parse_qs(parts.query)
    job_id, _, _ = stage.held["taskId"].partition("_")
    assert job_id in parts.path
    assert int(query["X-Amz-Expires"][0]) <= 900
    assert query["X-Amz-SignedHeaders"][0].split(";").count("host") == 1
    for name in ("../../x", "/etc/passwd", "a/../../b", "..", "a\x00b"):
        answer = stage.honest.urls(stage.held, store=[{"name": name, "size": 1, "md5S": [MD5]}])
        assert answer.status in (403, 409, 422), (name, answer)


HOSTILE = [
    "$(touch pwned)",
    "`touch pwned`",
    "'; touch pwned; '",
    '"; touch pwned; "',
    "\n touch pwned\n",
    "a & touch pwned",
    "| touch pwned",
    "{{ params.other }}",
    "${IFS}touch${IFS}pwned",
    "\\'; touch pwned #",
    "--option",
    "*",
    "~root",
    "é\u202e\ufeff",
]


@pytest.mark.parametrize("place", ["params", "item", "step", "trigger"])
def test_no_value_of_a_request_becomes_shell_code(
    cloud: Cloud, runner: JobRunner, tmp_path: Any, place: str
) -> None:
    name = f"inject-{place}"
    content = "printf '%s\\n' {{ params.given }} {{ params.list[0] }} {{ job.trigger }}"
    step = {"stepName": "a", "type": "shell", "content": content, "params": {"given": "x"}}
    runner.define(step, name=name, params={"list": ["x"], "other": "$(touch pwned)"}, workerGroup="mine")
    worker = a_worker(cloud, name, "mine")
    for number, value in enumerate(HOSTILE):
        request: dict[str, Any] = {"jobName": name, "trigger": f"t{number}"}
        if place == "params":
            request["params"] = {"given": value}
        elif place == "item":
            request["params"] = {"list": [value]}
        elif place == "step":
            request["steps"] = [{"stepName": "a", "params": {"given": value}}]
        else:
            assert cloud.http("POST", "/v1/jobs", {**request, "trigger": value}).status == 422
            continue
        assert cloud.http("POST", "/v1/jobs", request).status == 202
        [lease] = cloud.run_until(worker.lease, 20)
        ran = subprocess.run(["sh", "-c", lease["content"]], cwd=tmp_path, capture_output=True, timeout=50)
        assert (ran.returncode, list(tmp_path.iterdir())) == (0, [])
        if place != "params":  # the parameter of the step takes precedence
            assert value.encode() + b"\n" in ran.stdout
        assert worker.report(lease).status == 200
