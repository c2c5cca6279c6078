"""Waiting for Jobs and following logs, with a clock that advances only with sleep."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from shardmill.client import follow
from shardmill.client.client import Client
from shardmill.client.errors import NotFound, Unreachable, WaitTimedOut
from shardmill.client.follow import wait_for
from shardmill.model.job import Job
from shardmill.model.states import JobState
from shardmill.model.time.backfill import Backfill
from support.fakes.api import TOKEN, FakeApi, Reply, backfill, job, log, problem, step, task

JOB = "/v1/jobs/report/t1"
TASK = f"{JOB}/steps/main/tasks/2"


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(follow, "time", clock)
    return clock


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@pytest.fixture
def client(api: FakeApi, clock: Clock) -> Iterator[Client]:
    with Client("http://127.0.0.1:1", TOKEN, transport=api.transport()) as started:
        yield started


def test_wait_polls_until_the_job_has_ended(api: FakeApi, client: Client) -> None:
    api.on("GET", JOB, job("INIT"), job("QUEUED"), job("RUNNING"), job("SUCCESS"))
    updates: list[Job] = []
    assert client.wait("report", "t1", on_update=updates.append).state is JobState.SUCCESS
    assert [each.state.value for each in updates] == ["INIT", "QUEUED", "RUNNING", "SUCCESS"]


@pytest.mark.parametrize("state", ["FAILED", "KILLED", "DELETED"])
def test_wait_returns_jobs_that_did_not_succeed(api: FakeApi, client: Client, state: str) -> None:
    api.on("GET", JOB, job(state))
    assert client.wait("report", "t1").state.value == state


def test_wait_ends_with_a_job_that_a_failure_suspended(api: FakeApi, client: Client) -> None:
    suspended_by_user = job("SUSPENDED", step(state="SUSPENDED"))
    api.on("GET", JOB, suspended_by_user, suspended_by_user, job("SUSPENDED", step(state="FAILED")))
    assert client.wait("report", "t1").steps[0].state.value == "FAILED"
    assert len(api.requests) == 3


def test_wait_times_out_with_the_last_state(api: FakeApi, client: Client, clock: Clock) -> None:
    api.on("GET", JOB, job("RUNNING"))
    with pytest.raises(WaitTimedOut, match="report/t1 is still RUNNING after 7 s") as caught:
        client.wait("report", "t1", timeout=7)
    assert caught.value.job.state is JobState.RUNNING
    assert clock.now == pytest.approx(7)


def test_wait_with_a_zero_timeout_polls_once(api: FakeApi, client: Client) -> None:
    api.on("GET", JOB, job("RUNNING"))
    with pytest.raises(WaitTimedOut):
        client.wait("report", "t1", timeout=0)
    assert len(api.requests) == 1


def test_wait_polls_with_growing_intervals(api: FakeApi, client: Client, clock: Clock) -> None:
    api.on("GET", JOB, job("RUNNING"))
    with pytest.raises(WaitTimedOut):
        client.wait("report", "t1", timeout=3600)
    assert 1800 <= len(api.requests) <= 1900


def test_wait_for_an_unknown_job_fails_at_once(api: FakeApi, client: Client) -> None:
    api.on("GET", JOB, problem(404, "job-not-found"))
    with pytest.raises(NotFound):
        client.wait("report", "t1")


def reads_around_outage(clock: Clock, outage: float) -> Callable[[], Job]:
    """Return a read of a job that fails from the second call until the end of the outage."""

    def read() -> Job:
        if 0 < clock.now < outage:
            raise Unreachable("connection refused")
        return Job.model_validate(job("SUCCESS" if clock.now else "RUNNING"))

    return read


def test_wait_continues_after_a_short_outage(clock: Clock) -> None:
    assert wait_for(reads_around_outage(clock, outage=50), None, None).state is JobState.SUCCESS


def test_wait_fails_after_a_long_outage(clock: Clock) -> None:
    with pytest.raises(Unreachable):
        wait_for(reads_around_outage(clock, outage=100), None, None)
    assert follow.OUTAGE_SECONDS <= clock.now < follow.OUTAGE_SECONDS + 5


def test_an_outage_does_not_extend_the_timeout(clock: Clock) -> None:
    with pytest.raises(WaitTimedOut):
        wait_for(reads_around_outage(clock, outage=50), 10, None)
    assert clock.now == pytest.approx(10)


def test_an_outage_at_the_first_request_is_raised(clock: Clock) -> None:
    def read() -> Job:
        raise Unreachable("connection refused")

    with pytest.raises(Unreachable):
        wait_for(read, None, None)


BACKFILL = "/v1/schedules/report/nightly/backfills/2"


def test_wait_polls_until_no_job_of_a_backfill_runs(api: FakeApi, client: Client) -> None:
    ended = backfill("STOPPED", success=2)
    api.on("GET", BACKFILL, backfill(running=1), backfill("STOPPED", running=1), ended, backfill("DONE"))
    updates: list[Backfill] = []
    assert client.wait_backfill("report", "nightly", 2, on_update=updates.append).success == 2
    assert [each.state for each in updates] == ["RUNNING", "STOPPED", "STOPPED"]


def test_wait_for_a_backfill_times_out(api: FakeApi, client: Client, clock: Clock) -> None:
    api.on("GET", BACKFILL, backfill())
    with pytest.raises(
        WaitTimedOut, match="backfill 2 of report/nightly is still RUNNING after 7 s"
    ) as caught:
        client.wait_backfill("report", "nightly", 2, timeout=7)
    assert caught.value.job is None
    assert caught.value.backfill
    assert caught.value.backfill.number == 2
    assert clock.now == pytest.approx(7)


def logs(api: FakeApi, *pages: Any) -> None:
    api.on("GET", f"{TASK}/logs", *pages)


def test_a_log_is_read_to_its_end(api: FakeApi, client: Client) -> None:
    logs(api, log("one\n", 4, False), log("two\n", 8, True))
    assert list(client.logs("report", "t1", "main", 2, "stderr")) == ["one\n", "two\n"]
    assert [each.query for each in api.requests] == [
        {"stream": "stderr", "offset": "0"},
        {"stream": "stderr", "offset": "4"},
    ]


def test_a_growing_log_is_read_to_its_current_end(api: FakeApi, client: Client) -> None:
    logs(api, log("one\n", 4, False), log("", 4, False), log("never", 9, True))
    assert list(client.logs("report", "t1", "main", 2)) == ["one\n"]


def test_following_continues_until_the_task_has_ended(api: FakeApi, client: Client) -> None:
    api.on(
        "GET", TASK, task(2, "READY", 0), task(2, "READY", 0), task(2, "RUNNING", 1), task(2, "SUCCESS", 1)
    )
    logs(api, log("", 0, False), log("one\n", 4, False), log("", 4, False), log("two\n", 8, True))
    assert list(client.logs("report", "t1", "main", 2, follow=True)) == ["one\n", "two\n"]


def test_following_reads_each_attempt_from_its_start(api: FakeApi, client: Client) -> None:
    api.on("GET", TASK, task(2, "RUNNING", 1), task(2, "RUNNING", 3), task(2, "SUCCESS", 3))
    logs(api, log("first\n", 6, True), log("third\n", 6, True))
    assert list(client.logs("report", "t1", "main", 2, follow=True)) == ["first\n", "third\n"]
    requests = [
        (each.query["attempt"], each.query["offset"]) for each in api.requests if each.path.endswith("logs")
    ]
    assert requests == [("1", "0"), ("3", "0")]


def test_following_a_task_that_never_ran_ends(api: FakeApi, client: Client) -> None:
    api.on("GET", TASK, task(2, "KILLED", 0))
    assert list(client.logs("report", "t1", "main", 2, follow=True)) == []


def test_the_log_of_an_unknown_task_is_not_found(api: FakeApi, client: Client) -> None:
    api.on("GET", f"{TASK}/logs", Reply({"code": "task-not-found", "detail": "no"}, 404))
    with pytest.raises(NotFound):
        list(client.logs("report", "t1", "main", 2))
