"""Workers over HTTP that wait at SQS: addresses, and what a message that they bring can and cannot do."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode
from xml.etree import ElementTree

import pytest

from shardmill.aws.clock import now_ms
from shardmill.aws.queues import RESEND, Ticket
from shardmill.engine.groups import lanes
from shardmill.engine.workers.addresses import RENEW_MS
from shardmill.model.groups.addresses import SIZES, VALID_SECONDS
from support.moto.http_api import Answer
from support.moto.presigned_sqs import PresignedSqs
from support.scenarios.access import Callers
from support.scenarios.job_runner import JobRunner
from support.scenarios.worker_api import heartbeat, register, report, start_tasks

Item = dict[str, Any]


@pytest.fixture
def sqs(runner: JobRunner) -> PresignedSqs:
    return PresignedSqs(runner.cloud)


def receive(sqs: PresignedSqs, lanes_: Item, most: int = 10) -> list[Item]:
    """Receive once from each lane, as a worker does; return what it brings."""
    found = []
    for lane in lanes_["items"]:
        answer = sqs(lane["urls"][str(most)])
        assert answer.status_code == 200, answer.text
        for message in _messages(answer.text):
            found.append({"queue": lane["queue"], **message})
    return found


def _messages(text: str) -> Iterator[Item]:
    for element in ElementTree.fromstring(text).iter():
        element.tag = element.tag.split("}")[-1]
        if element.tag == "Message":
            values = {child.tag.split("}")[-1]: child.text for child in element}
            yield {"receipt": values["ReceiptHandle"], "body": values["Body"]}


def bring(runner: JobRunner, me: Item, messages: list[Item], most: int = 10, **more: Any) -> Answer:
    body = {"workerId": me["id"], "session": me["session"], "max": most, "messages": messages, **more}
    return runner.cloud.http("POST", "/v1/work:lease", body)


def leased(runner: JobRunner, me: Item, messages: list[Item], **more: Any) -> list[int]:
    answer = bring(runner, me, messages, **more)
    assert answer.status == 200, answer
    return sorted(item["sharding"]["index"] for item in answer.json["items"])


def ticket_of(runner: JobRunner, **changes: int) -> str:
    row = runner.row(0)
    return Ticket(row.job_id, row.run, row.index, row.gen, 0)._replace(**changes).encode()


def visible(runner: JobRunner, group: str = "default") -> int:
    row = runner.mill.groups.get(group)
    assert row is not None
    names = ["ApproximateNumberOfMessages"]
    return sum(
        int(
            runner.cloud.clients.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"][  # type: ignore[arg-type]
                "ApproximateNumberOfMessages"
            ]
        )
        for url in row.queues
    )


def states(runner: JobRunner) -> dict[str, int]:
    counts: dict[str, int] = runner.job()["steps"][0]["counts"]
    return {state: count for state, count in counts.items() if count}


# addresses


def test_a_registration_returns_an_address_for_each_lane_and_size(
    runner: JobRunner, sqs: PresignedSqs
) -> None:
    me = register(runner)
    row = runner.mill.groups.get("default")
    assert row is not None
    lanes_ = me["lanes"]
    assert [lane["queue"] for lane in lanes_["items"]] == [url.rsplit("/", 1)[1] for url in row.queues[:3]]
    assert [lane["priority"] for lane in lanes_["items"]] == sorted(
        (lane["priority"] for lane in lanes_["items"]), reverse=True
    )
    assert lanes_["validSeconds"] == VALID_SECONDS <= 900
    for lane in lanes_["items"]:
        assert set(lane["urls"]) == {str(size) for size in SIZES}
        for url in lane["urls"].values():
            assert sqs(url).status_code == 200
            assert f"X-Amz-Expires={VALID_SECONDS}&" in url


def test_an_address_cannot_be_changed_and_expires(runner: JobRunner) -> None:
    late = PresignedSqs(runner.cloud, clock=lambda: datetime.now(UTC) + timedelta(seconds=VALID_SECONDS + 1))
    sqs = PresignedSqs(runner.cloud)
    url = register(runner)["lanes"]["items"][0]["urls"]["1"]
    assert late(url).status_code == 403
    for name in ("MaxNumberOfMessages=1&", "VisibilityTimeout=60&"):
        assert name in url
        assert sqs(url.replace(name, f"{name[:-1]}0&")).status_code == 403
    assert sqs(url.replace("Action=ReceiveMessage", "Action=PurgeQueue")).status_code == 403
    assert sqs(f"{url}&{urlencode({'MessageGroupId': 'x'})}").status_code == 403


def test_a_wrong_clock_of_the_worker_has_no_effect(runner: JobRunner) -> None:
    """Only the clocks of the signer and of SQS are compared; the worker sends the address as it is."""
    url = register(runner)["lanes"]["items"][0]["urls"]["1"]
    signed = url.partition("X-Amz-Date=")[2][:16]
    assert abs(
        datetime.strptime(signed, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC) - datetime.now(UTC)
    ) < timedelta(minutes=1)


def test_a_heartbeat_renews_addresses_in_time_and_only_then(
    runner: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    me = register(runner)
    tag = me["lanes"]["tag"]
    assert heartbeat(runner, me, [], lanes=tag).json["lanes"] is None
    assert heartbeat(runner, me, [], lanes="").json["lanes"]["items"]
    assert heartbeat(runner, me, [], lanes="nonsense.").json["lanes"]["items"]
    digest, _, signed = tag.partition(".")
    aged = f"{digest}.{int(signed) - RENEW_MS - 1}"
    renewed = heartbeat(runner, me, [], lanes=aged).json["lanes"]
    assert renewed["tag"] != aged
    assert renewed["tag"].startswith(digest)


def test_a_worker_of_the_release_before_gets_no_addresses_with_its_heartbeats(runner: JobRunner) -> None:
    assert heartbeat(runner, register(runner), []).json["lanes"] is None


def test_addresses_follow_the_lanes(runner: JobRunner) -> None:
    me = register(runner)
    row = runner.mill.groups.get("default")
    assert row is not None
    for priority in (5, 6, 7):
        lanes.queue_for(runner.mill, runner.mill.groups.get("default"), priority)  # type: ignore[arg-type]
    runner.mill.recent_groups.discard("default")
    renewed = heartbeat(runner, me, [], lanes=me["lanes"]["tag"]).json["lanes"]
    priorities = [lane["priority"] for lane in renewed["items"]]
    assert priorities == [7, 6, 5, 1, 0]  # the last is of the queue that the next priority will get


def test_a_worker_learns_of_a_new_priority_by_its_first_message(runner: JobRunner, sqs: PresignedSqs) -> None:
    """The API has cached the group as it was before; it reads it again because the queue had no lane then."""
    for priority in (5, 6):
        lanes.queue_for(runner.mill, runner.mill.groups.get("default"), priority)  # type: ignore[arg-type]
    runner.mill.recent_groups.discard("default")
    me = register(runner)
    before = runner.mill.groups.get("default")
    assert before is not None
    runner.define({"stepName": "a"}, priority=9)
    runner.submit()
    runner.cloud.run_until(lambda: bool(runner.row(0).token))
    [message] = receive(sqs, me["lanes"])
    runner.mill.recent_groups.put("default", before, now_ms())
    answer = bring(runner, me, [message], lanes=me["lanes"]["tag"]).json
    assert (answer["items"], answer["lanes"]["items"][0]["priority"]) == ([], 9)
    me["lanes"] = answer["lanes"]
    assert leased(runner, me, receive(sqs, me["lanes"])) == [0]


def test_a_suspended_group_has_no_addresses(runner: JobRunner) -> None:
    assert runner.cloud.http("PUT", "/v1/groups/extra", {}).status == 201
    me = register(runner, groups=["default", "extra"])
    assert len(me["lanes"]["items"]) == 6
    runner.post("/v1/groups/extra:suspend", {"reason": "maintenance"})
    runner.mill.recent_groups.discard("extra")
    assert len(heartbeat(runner, me, [], lanes=me["lanes"]["tag"]).json["lanes"]["items"]) == 3


def test_a_token_gets_only_the_addresses_of_its_groups(runner: JobRunner) -> None:
    assert runner.cloud.http("PUT", "/v1/groups/extra", {}).status == 201
    caller = Callers(runner.cloud).with_scopes({"scope": "worker", "groups": ["extra"]})
    refused = caller("POST", "/v1/workers", {"name": "w", "groups": ["default"]})
    assert refused.status == 403, refused
    refused = caller("POST", "/v1/workers", {"name": "w", "groups": ["extra", "default"]})
    assert refused.status == 403, refused
    mine = caller("POST", "/v1/workers", {"name": "w", "groups": ["extra"]}).json
    extra = runner.mill.groups.get("extra")
    assert extra is not None
    own = {url.rsplit("/", 1)[1] for url in extra.queues}
    assert {lane["queue"] for lane in mine["lanes"]["items"]} <= own
    other = register(runner, "other")
    body = {"session": other["session"], "lanes": ""}
    assert caller("POST", f"/v1/workers/{other['id']}:heartbeat", body).status == 404


# leases


def test_brought_messages_lead_to_leases(runner: JobRunner, sqs: PresignedSqs) -> None:
    start_tasks(runner)
    me = register(runner)
    messages = receive(sqs, me["lanes"])
    answer = bring(runner, me, messages)
    assert sorted(item["sharding"]["index"] for item in answer.json["items"]) == [0, 1, 2]
    assert report(runner, me, answer.json["items"]).status == 200
    runner.cloud.run_until(lambda: runner.job()["state"] == "SUCCESS")


@pytest.mark.parametrize("brings", [True, False], ids=["brought", "received"])
def test_the_api_function_leases_if_the_lease_has_no_route_of_its_own(
    runner: JobRunner, sqs: PresignedSqs, brings: bool
) -> None:
    """What docs/aws-assumptions.md advises if API Gateway refuses the colon in the key of that route."""
    api = runner.cloud.api
    runner.cloud.api = replace(api, routes=[each for each in api.routes if each.function != "lease"])
    assert len(runner.cloud.api.routes) < len(api.routes)
    start_tasks(runner)
    me = register(runner)
    messages = receive(sqs, me["lanes"]) if brings else []
    assert leased(runner, me, messages) == [0, 1, 2]


def test_no_more_than_the_slots_hold_is_leased_and_the_rest_is_released(
    runner: JobRunner, sqs: PresignedSqs
) -> None:
    start_tasks(runner, 5)
    me = register(runner)
    messages = receive(sqs, me["lanes"])
    assert visible(runner) == 0
    assert len(leased(runner, me, messages, most=2)) == 2
    assert visible(runner) == 3
    messages = receive(sqs, me["lanes"])
    assert leased(runner, me, messages, most=0) == []
    assert visible(runner) == 3


def test_more_than_ten_messages_are_leased_in_one_call(runner: JobRunner, sqs: PresignedSqs) -> None:
    start_tasks(runner, 25)
    me = register(runner, slots=30)
    messages = [message for _ in range(3) for message in receive(sqs, me["lanes"])]
    assert leased(runner, me, messages, most=30) == list(range(25))


def test_the_same_message_brought_twice_leases_once(runner: JobRunner, sqs: PresignedSqs) -> None:
    start_tasks(runner, 1)
    me, other = register(runner), register(runner, "other")
    messages = receive(sqs, me["lanes"])
    assert leased(runner, me, messages + messages) == [0]
    assert leased(runner, me, messages) == []
    assert leased(runner, other, messages) == []
    [attempt] = runner.task("a", 0)["attempts"]
    assert (attempt["attempt"], attempt["worker"]) == (1, me["id"])


def test_a_worker_that_is_killed_before_it_leases_delays_its_messages_by_a_lease(
    runner: JobRunner, sqs: PresignedSqs
) -> None:
    assert runner.cloud.http("PUT", "/v1/groups/quick", {"leaseSeconds": 10}).status == 201
    start_tasks(runner, 2, workerGroup="quick")
    me = register(runner, groups=["quick"])
    assert all("VisibilityTimeout=10&" in lane["urls"]["1"] for lane in me["lanes"]["items"])
    assert len(receive(sqs, me["lanes"])) == 2
    assert receive(sqs, me["lanes"]) == []
    assert states(runner) == {"READY": 2}


# hostile workers


def refuses(runner: JobRunner, me: Item, *messages: Item, **more: Any) -> None:
    """Check that messages lead to no lease, and that rows and queues do not change."""
    row, before, count = runner.row(0), states(runner), visible(runner)
    assert leased(runner, me, list(messages), **more) == []
    assert states(runner) == before
    assert (runner.row(0).gen, runner.row(0).resend) == (row.gen, row.resend)
    assert visible(runner) >= count
    dead = runner.cloud.environment["SHARDMILL_DEAD_QUEUE"]
    assert "Messages" not in runner.cloud.clients.sqs.receive_message(QueueUrl=dead)


def foreign_task(runner: JobRunner) -> tuple[Item, Item]:
    """A Job with a task in the group `theirs`; a worker of `mine`, and its first lane."""
    for group in ("mine", "theirs"):
        assert runner.cloud.http("PUT", f"/v1/groups/{group}", {}).status == 201
    start_tasks(runner, 2, workerGroup="theirs")
    me = register(runner, groups=["mine"])
    return me, me["lanes"]["items"][1]


def test_an_invented_message_of_another_groups_task_changes_nothing(runner: JobRunner) -> None:
    me, lane = foreign_task(runner)
    theirs = runner.mill.groups.get("theirs")
    assert theirs is not None
    body = ticket_of(runner)
    refuses(runner, me, {"queue": lane["queue"], "receipt": "invented", "body": body})
    for url in theirs.queues:
        refuses(runner, me, {"queue": url.rsplit("/", 1)[1], "receipt": "invented", "body": body})
    assert visible(runner, "theirs") == 2


def test_a_message_received_from_another_groups_queue_changes_nothing(
    runner: JobRunner, sqs: PresignedSqs
) -> None:
    me, _ = foreign_task(runner)
    them = register(runner, "them", groups=["theirs"])
    stolen = receive(sqs, them["lanes"])
    assert len(stolen) == 2
    refuses(runner, me, *stolen)
    assert leased(runner, them, stolen) == [0, 1]


@pytest.mark.parametrize(
    "body", ["", "x", "[]", json.dumps(["j", 1, 0, 0, 0]), json.dumps(["j", 1, 0, 0, "0"]), "[" * 900]
)
def test_an_unreadable_message_changes_nothing(runner: JobRunner, body: str) -> None:
    start_tasks(runner, 1)
    me = register(runner, groups=["default"])
    hold = runner.worker.receive()  # nothing is left that Shardmill could receive itself
    assert len(hold) == 1
    refuses(runner, me, {"queue": me["lanes"]["items"][1]["queue"], "receipt": "r", "body": body})


@pytest.mark.parametrize(
    "changes",
    [{"rank": RESEND}, {"rank": -5_000_000_000_000}, {"gen": 99}, {"rank": 7}, {"run": 2}, {"step": 1}],
)
def test_a_message_that_a_worker_changed_changes_nothing(runner: JobRunner, changes: dict[str, int]) -> None:
    start_tasks(runner, 1)
    me = register(runner)
    assert len(runner.worker.receive()) == 1
    body = ticket_of(runner, **changes)
    refuses(runner, me, {"queue": me["lanes"]["items"][1]["queue"], "receipt": "r", "body": body})


def test_an_invented_message_of_a_task_outside_the_window_changes_nothing(
    runner: JobRunner, sqs: PresignedSqs
) -> None:
    """Otherwise a worker could run more tasks of a step at once than `maxTaskCount`."""
    start_tasks(runner, 6, step={"maxTaskCount": 2})
    me = register(runner)
    messages = receive(sqs, me["lanes"])
    lane = messages[0]["queue"]
    for rank in (2, 3, 5):
        refuses(runner, me, {"queue": lane, "receipt": "r", "body": ticket_of(runner, rank=rank)})
    done = []
    while messages:
        answer = bring(runner, me, messages).json["items"]
        assert 1 <= len(answer) <= 2
        done += [item["sharding"]["index"] for item in answer]
        assert report(runner, me, answer).status == 200
        messages = receive(sqs, me["lanes"])
    assert sorted(done) == list(range(6))


def test_a_kept_message_of_an_ended_task_deletes_no_other(runner: JobRunner, sqs: PresignedSqs) -> None:
    """A worker brings the body of a task that has ended with the receipt of one that has not."""
    start_tasks(runner, 2)
    me = register(runner)
    first, second = receive(sqs, me["lanes"])
    answer = bring(runner, me, [first])
    assert report(runner, me, answer.json["items"]).status == 200
    mixed = {**first, "receipt": second["receipt"]}
    assert leased(runner, me, [mixed]) == [answer.json["items"][0]["sharding"]["index"] ^ 1], (
        "the message is released and received here"
    )


def test_a_suspended_worker_gets_nothing_and_its_messages_are_released(
    runner: JobRunner, sqs: PresignedSqs
) -> None:
    start_tasks(runner, 2)
    me = register(runner)
    messages = receive(sqs, me["lanes"])
    runner.post(f"/v1/workers/{me['id']}:suspend", {"reason": "test"})
    answer = bring(runner, me, messages)
    assert (answer.status, answer.json["code"]) == (409, "worker-suspended")
    assert visible(runner) == 2


def test_an_older_session_gets_nothing(runner: JobRunner, sqs: PresignedSqs) -> None:
    start_tasks(runner, 1)
    me = register(runner)
    messages = receive(sqs, me["lanes"])
    register(runner)
    assert bring(runner, me, messages).json["code"] == "stale-session"
    assert (states(runner), visible(runner)) == ({"READY": 1}, 1)


# lanes that change, and workers that cannot run a task


def test_messages_are_released_if_lanes_were_added(runner: JobRunner, sqs: PresignedSqs) -> None:
    start_tasks(runner, 2)
    me = register(runner)
    messages = receive(sqs, me["lanes"])
    for priority in (7, 8, 9):
        lanes.queue_for(runner.mill, runner.mill.groups.get("default"), priority)  # type: ignore[arg-type]
    runner.mill.recent_groups.discard("default")
    answer = bring(runner, me, messages, lanes=me["lanes"]["tag"]).json
    assert answer["items"] == []
    assert visible(runner) == 2
    messages = receive(sqs, answer["lanes"])
    assert leased(runner, me, messages, lanes=answer["lanes"]["tag"]) == [0, 1]


def test_a_worker_pauses_lanes_whose_tasks_others_must_run(runner: JobRunner, sqs: PresignedSqs) -> None:
    start_tasks(runner, 1, step={"type": "shell", "content": "true"})
    me = register(runner, apps=["blast"])
    able = register(runner, "able")
    answer = bring(runner, me, receive(sqs, me["lanes"])).json
    assert (answer["items"], answer["paused"]) == ([], [me["lanes"]["items"][1]["queue"]])
    assert leased(runner, able, receive(sqs, able["lanes"])) == [0]


def test_tasks_behind_those_of_others_are_leased(runner: JobRunner, sqs: PresignedSqs) -> None:
    start_tasks(runner, 3, step={"type": "shell", "content": "true"})
    me = register(runner, apps=["blast"])
    register(runner, "able")
    runner.define({"stepName": "a", "command": {"name": "blast"}}, name="mine")
    runner.submit(name="mine")
    runner.cloud.run_until(lambda: visible(runner) == 4)
    messages = receive(sqs, me["lanes"], most=3)
    assert leased(runner, me, messages) == [0]
    assert runner.job(name="mine")["state"] == "RUNNING"


# reports that lease the next tasks


def exchange(runner: JobRunner, me: Item, tasks: list[Item], messages: list[Item], **more: Any) -> Answer:
    results = [{"outcome": "success", **more, "taskId": t["taskId"], "attempt": t["attempt"]} for t in tasks]
    wanted = {"session": me["session"], "max": 10, "messages": messages}
    body = {"workerId": me["id"], "results": results, "lease": wanted}
    return runner.cloud.http("POST", "/v1/work:report", body)


def test_a_report_leases_the_next_tasks(runner: JobRunner, sqs: PresignedSqs) -> None:
    start_tasks(runner, 4)
    me = register(runner)
    first = bring(runner, me, receive(sqs, me["lanes"], most=1)).json["items"]
    answer = exchange(runner, me, first, receive(sqs, me["lanes"])).json
    assert [item["status"] for item in answer["items"]] == ["ok"]
    assert len(answer["lease"]["items"]) == 3
    now = runner.cloud.http("GET", f"/v1/workers/{me['id']}").json
    assert (now["totalCheckout"], now["totalCompleted"], now["remainTasks"]) == (4, 1, 3)
    assert report(runner, me, answer["lease"]["items"]).status == 200
    runner.cloud.run_until(lambda: runner.job()["state"] == "SUCCESS")


def test_a_repeated_exchange_reports_once_and_leases_nothing_twice(
    runner: JobRunner, sqs: PresignedSqs
) -> None:
    start_tasks(runner, 2)
    me = register(runner)
    first = bring(runner, me, receive(sqs, me["lanes"], most=1)).json["items"]
    messages = receive(sqs, me["lanes"], most=1)
    assert len(exchange(runner, me, first, messages).json["lease"]["items"]) == 1
    again = exchange(runner, me, first, messages).json
    assert [item["status"] for item in again["items"]] == ["already"]
    assert again["lease"]["items"] == []


def test_a_worker_that_failed_a_task_leaves_its_retry_to_others_in_the_same_request(
    runner: JobRunner, sqs: PresignedSqs
) -> None:
    start_tasks(runner, 1, failedRetries=2, failedInterval=0)
    me = register(runner)
    register(runner, "other")
    first = bring(runner, me, receive(sqs, me["lanes"], most=1)).json["items"]
    body = ticket_of(runner)
    messages = [{"queue": me["lanes"]["items"][1]["queue"], "receipt": "r", "body": body}]
    answer = exchange(runner, me, first, messages, outcome="failed").json
    assert (answer["items"][0]["status"], answer["lease"]["items"]) == ("ok", [])
    assert states(runner) == {"READY": 1}


def test_results_are_recorded_even_if_the_lease_is_refused(runner: JobRunner, sqs: PresignedSqs) -> None:
    start_tasks(runner, 2)
    me = register(runner)
    first = bring(runner, me, receive(sqs, me["lanes"], most=1)).json["items"]
    messages = receive(sqs, me["lanes"])
    runner.post(f"/v1/workers/{me['id']}:suspend", {"reason": "test"})
    answer = exchange(runner, me, first, messages).json
    assert (answer["items"][0]["status"], answer["refused"]["code"]) == ("ok", "worker-suspended")
    assert states(runner) == {"READY": 1, "SUCCESS": 1}
    assert visible(runner) == 1
    assert runner.cloud.http("GET", f"/v1/workers/{me['id']}").json["totalCompleted"] == 1


def test_a_stale_report_does_not_keep_a_worker_from_its_lease(runner: JobRunner, sqs: PresignedSqs) -> None:
    start_tasks(runner, 1)
    me = register(runner)
    stale = {"taskId": f"{runner.row(0).job_id}_0_0", "attempt": 7}
    answer = exchange(runner, me, [stale], receive(sqs, me["lanes"])).json
    assert answer["items"][0]["status"] != "ok"
    assert len(answer["lease"]["items"]) == 1


# compressed requests


def send_packed(runner: JobRunner, body: bytes, encoding: str = "gzip") -> Answer:
    return runner.cloud.http("POST", "/v1/workers", body, headers={"content-encoding": encoding})


def test_compressed_requests_are_accepted(runner: JobRunner) -> None:
    body = json.dumps({"name": "packed", "groups": ["default"]}).encode()
    assert send_packed(runner, gzip.compress(body)).status == 201
    assert send_packed(runner, body, "identity").status == 201


@pytest.mark.parametrize(
    ("body", "encoding", "status"),
    [
        (gzip.compress(b" " * 50_000_000), "gzip", 413),
        (gzip.compress(b'{"name": "x"}' * 100)[:-9], "gzip", 400),
        (gzip.compress(b"{}") + b"\xff", "gzip", 400),
        (b"\x1f\x8b\xff\xff\xff", "gzip", 400),
        (b'{"name": "x"}', "gzip", 400),
        (gzip.compress(b"\xff\xff"), "gzip", 400),
        (b"{}", "br", 415),
    ],
    ids=[
        "too large",
        "cut off",
        "with a tail",
        "bad header",
        "not compressed",
        "no JSON",
        "another encoding",
    ],
)
def test_compressed_requests_are_bounded_and_checked(
    runner: JobRunner, body: bytes, encoding: str, status: int
) -> None:
    answer = send_packed(runner, body, encoding)
    assert (answer.status, "code" in answer.json) == (status, True), answer
