"""Control of Jobs with the SDK, against a fake API."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmill import Transition
from shardmill.client.client import Client
from shardmill.client.errors import BadAnswer, BadName, Conflict, ServerError
from shardmill.model.job import Job
from shardmill.model.states import JobState
from support.fakes.api import TOKEN, FakeApi, Reply, job, page, problem, step, task, transition

JOB = "/v1/jobs/report/t1"
WHO = ("report", "t1")
Act = Callable[[Client], Job]


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@pytest.fixture
def client(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    with Client("http://127.0.0.1:1", TOKEN, transport=api.transport()) as started:
        yield started


@pytest.mark.parametrize(
    ("act", "verb", "sent"),
    [
        (lambda client: client.suspend(*WHO), "suspend", {"letFinish": False}),
        (
            lambda client: client.suspend(*WHO, "why", let_finish=True),
            "suspend",
            {"reason": "why", "letFinish": True},
        ),
        (lambda client: client.resume(*WHO), "resume", {}),
        (lambda client: client.resume(*WHO, reason="why"), "resume", {"reason": "why"}),
        (lambda client: client.kill(*WHO), "kill", {}),
        (lambda client: client.kill(*WHO, "why"), "kill", {"reason": "why"}),
        (lambda client: client.kill(*WHO, step="main"), "kill", {"stepName": "main"}),
        (
            lambda client: client.kill(*WHO, step="main", index=0),
            "kill",
            {"stepName": "main", "index": 0},
        ),
        (lambda client: client.rerun(*WHO), "rerun", {}),
        (lambda client: client.rerun(*WHO, everything=True), "rerun", {"scope": "all"}),
        (lambda client: client.rerun(*WHO, steps=("a", "b")), "rerun", {"steps": ["a", "b"]}),
        (
            lambda client: client.rerun(*WHO, steps=["a"], shards=range(2), reason="why"),
            "rerun",
            {"steps": ["a"], "shards": [0, 1], "reason": "why"},
        ),
        (lambda client: client.recompute(*WHO, "main"), "recompute", {"stepName": "main"}),
        (
            lambda client: client.recompute(*WHO, "main", "why"),
            "recompute",
            {"stepName": "main", "reason": "why"},
        ),
        (lambda client: client.set_priority(*WHO, 0), "priority", {"priority": 0}),
        (
            lambda client: client.set_priority(*WHO, 3, "why"),
            "priority",
            {"priority": 3, "reason": "why"},
        ),
        (lambda client: client.set_groups(*WHO, ["a", "b"]), "group", {"workerGroups": ["a", "b"]}),
        (
            lambda client: client.set_groups(*WHO, ("a",), "main", "why"),
            "group",
            {"workerGroups": ["a"], "stepName": "main", "reason": "why"},
        ),
        (lambda client: client.change(*WHO), "change", {}),
        (lambda client: client.change(*WHO, worker_groups=()), "change", {"workerGroups": []}),
    ],
)
def test_control_requests_have_the_documented_form(
    api: FakeApi, client: Client, act: Act, verb: str, sent: Any
) -> None:
    api.on("POST", f"{JOB}:{verb}", job("SUSPENDED", run=2))
    done = act(client)
    assert (done.state, done.run) == (JobState.SUSPENDED, 2)
    assert api.requests[0].document == sent


CHANGES: dict[str, tuple[str, st.SearchStrategy[Any]]] = {
    "step": ("stepName", st.sampled_from(["main", "other"])),
    "priority": ("priority", st.integers(-(2**53), 2**53)),
    "worker_groups": ("workerGroups", st.lists(st.sampled_from("abc"))),
    "max_task_count": ("maxTaskCount", st.integers(0, 2**53)),
    "failed_retries": ("failedRetries", st.integers(0, 2**53)),
    "timeout_seconds": ("timeoutSeconds", st.integers(0, 2**53)),
    "reason": ("reason", st.text("abc", min_size=1)),
}


@given(st.fixed_dictionaries({}, optional={name: values for name, (_, values) in CHANGES.items()}))
def test_a_change_sends_only_the_given_fields(given_: dict[str, Any]) -> None:
    api = FakeApi()
    api.on("POST", f"{JOB}:change", job())
    with Client("http://127.0.0.1:1", TOKEN, transport=api.transport()) as client:
        client.change(*WHO, **given_)
    assert [each.document for each in api.requests] == [
        {CHANGES[name][0]: value for name, value in given_.items()}
    ]


BUSY = problem(503, "busy", "retry later")


@pytest.mark.parametrize("verb", ["suspend", "resume", "kill"])
def test_idempotent_requests_are_retried(api: FakeApi, client: Client, verb: str) -> None:
    api.on("POST", f"{JOB}:{verb}", BUSY, job())
    getattr(client, verb)(*WHO)
    assert len(api.requests) == 2


@pytest.mark.parametrize(
    "act", [lambda client: client.rerun(*WHO), lambda client: client.recompute(*WHO, "main")]
)
def test_a_rerun_is_not_retried(api: FakeApi, client: Client, act: Act) -> None:
    for verb in ("rerun", "recompute"):
        api.on("POST", f"{JOB}:{verb}", BUSY, job())
    with pytest.raises(ServerError, match="retry later"):
        act(client)
    assert len(api.requests) == 1


def test_a_refused_request_raises_conflict(api: FakeApi, client: Client) -> None:
    api.on("POST", f"{JOB}:kill", problem(409, "job-ended", "the Job report/t1 has ended as SUCCESS"))
    with pytest.raises(Conflict, match="has ended as SUCCESS") as refused:
        client.kill(*WHO)
    assert refused.value.code == "job-ended"


def test_an_invalid_name_is_not_sent(api: FakeApi, client: Client) -> None:
    for act in (client.suspend, client.resume, client.kill, client.rerun, client.history):
        with pytest.raises(BadName):
            act("a/b", "t1")
    assert not api.requests


def test_the_history_is_read(api: FakeApi, client: Client) -> None:
    rerun = transition("INIT", run=2, actor="bob", reason="fixed")
    api.on("GET", f"{JOB}/history", page(transition("FAILED", "main"), rerun))
    first, second = client.history(*WHO)
    assert isinstance(first, Transition)
    assert (first.step_name, first.state) == ("main", "FAILED")
    assert (second.step_name, second.run, second.actor, second.reason) == (None, 2, "bob", "fixed")


def test_earlier_runs_can_be_read(api: FakeApi, client: Client) -> None:
    api.on("GET", JOB, job("FAILED", step(), run=1))
    api.on("GET", f"{JOB}/steps/main", step())
    api.on("GET", f"{JOB}/steps/main/tasks", page(task()))
    api.on("GET", f"{JOB}/steps/main/tasks/0", task())
    client.job(*WHO, run=1)
    client.steps(*WHO, run=1)
    client.step(*WHO, "main", run=1)
    list(client.tasks(*WHO, "main", run=1))
    client.task(*WHO, "main", 0, run=1)
    assert [each.query["run"] for each in api.requests] == ["1"] * 5
    client.job(*WHO)
    assert api.requests[-1].query == {}


def test_an_invalid_response_raises_bad_answer(api: FakeApi, client: Client) -> None:
    api.on("GET", f"{JOB}/history", Reply({"items": 3}))
    with pytest.raises(BadAnswer, match="is not a list"):
        client.history(*WHO)
