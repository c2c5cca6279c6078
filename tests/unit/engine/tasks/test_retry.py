"""Decisions on tasks: each outcome in a table, and properties that hold for all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmill.engine.tasks.retry import (
    DISCARDED,
    End,
    Outcome,
    Rules,
    Settled,
    Take,
    Wait,
    on_delivery,
    on_hand_back,
    on_report,
    too_many_failures,
)
from shardmill.model.blocks import Shard
from shardmill.model.states import TASK_MOVES, TaskState

NOW = 1_700_000_000_000
LEASE = 60_000
RULES = Rules(
    failed_retries=2, failed_interval=3, failed_backoff=2, reject_retries=1, reject_interval=5, lost_retries=1
)
RUNNING = Shard(TaskState.RUNNING, attempt=1, worker="w.1", time=NOW - 10_000)

shards = st.builds(
    Shard,
    state=st.sampled_from(list(TaskState)),
    attempt=st.integers(0, 50),
    failures=st.integers(0, 5),
    losses=st.integers(0, 5),
    rejections=st.integers(0, 5),
    worker=st.sampled_from(["", "w.1", "abcdefgh.z"]),
    time=st.integers(0, 2 * NOW),
    span=st.integers(0, 10**9),
)


def deliver(shard: Shard, *, alive: bool = True, stopping: bool = False) -> object:
    return on_delivery(
        shard, RULES, worker="me.7", now=NOW, lease_ms=LEASE, holder_alive=alive, stopping=stopping
    )


def report(shard: Shard, outcome: str, *, reason: str = "", stopping: bool = False) -> Shard:
    return on_report(shard, RULES, Outcome(outcome), reason=reason, now=NOW, stopping=stopping)


def test_a_new_task_is_leased() -> None:
    taken = deliver(Shard())
    assert isinstance(taken, Take)
    assert taken.shard == Shard(TaskState.RUNNING, attempt=1, worker="me.7", time=NOW)


def test_a_task_waits_until_its_retry_is_due() -> None:
    assert deliver(Shard(TaskState.READY, attempt=1, time=NOW + 4_000)) == Wait(4_000)


def test_a_live_lease_is_respected() -> None:
    assert isinstance(deliver(RUNNING, alive=True), Wait)


def test_an_expired_lease_is_leased_again_without_counting_as_a_failure() -> None:
    taken = deliver(RUNNING, alive=False)
    assert isinstance(taken, Take)
    assert (taken.shard.attempt, taken.shard.failures, taken.shard.losses) == (2, 0, 1)


def test_lost_attempts_are_limited() -> None:
    ended = deliver(RUNNING.evolve(losses=1), alive=False)
    assert isinstance(ended, End)
    assert ended.shard.state is TaskState.FAILED


@pytest.mark.parametrize(
    "state", [TaskState.SUCCESS, TaskState.FAILED, TaskState.KILLED, TaskState.SUSPENDED]
)
def test_the_message_of_an_ended_task_is_deleted(state: TaskState) -> None:
    assert deliver(Shard(state, attempt=1)) == Settled()


def test_a_stopping_step_leases_nothing_and_ends_expired_leases() -> None:
    assert deliver(Shard(), stopping=True) == Settled()
    ended = deliver(RUNNING, alive=False, stopping=True)
    assert isinstance(ended, End)
    assert ended.shard.state is TaskState.KILLED


@pytest.mark.parametrize(
    ("before", "outcome", "reason", "stopping", "state", "wait"),
    [
        (RUNNING, "success", "", False, TaskState.SUCCESS, None),
        (RUNNING, "success", "", True, TaskState.SUCCESS, None),
        (RUNNING, "failed", "", False, TaskState.READY, 3_000),
        (RUNNING.evolve(failures=1), "failed", "", False, TaskState.READY, 6_000),
        (RUNNING.evolve(failures=2), "failed", "", False, TaskState.FAILED, None),
        (RUNNING, "failed", "", True, TaskState.FAILED, None),
        (RUNNING, "failed", DISCARDED, True, TaskState.KILLED, None),
        (RUNNING, "failed", DISCARDED, False, TaskState.READY, 0),
        (RUNNING, "failed-permanent", "", False, TaskState.FAILED, None),
        (RUNNING, "rejected", "", False, TaskState.READY, 5_000),
        (RUNNING.evolve(rejections=1), "rejected", "", False, TaskState.FAILED, None),
        (RUNNING, "rejected", "", True, TaskState.KILLED, None),
    ],
)
def test_a_report_decides_the_next_state(
    before: Shard, outcome: str, reason: str, stopping: bool, state: TaskState, wait: int | None
) -> None:
    after = report(before, outcome, reason=reason, stopping=stopping)
    assert after.state is state
    assert after.attempt == before.attempt
    if wait is None:
        assert (after.time, after.span) == (before.time, 10_000)
    else:
        assert after.time == NOW + wait


@given(shards, st.booleans(), st.booleans())
def test_delivery_only_makes_legal_transitions_and_never_lowers_an_attempt(
    shard: Shard, alive: bool, stopping: bool
) -> None:
    verdict = deliver(shard, alive=alive, stopping=stopping)
    if isinstance(verdict, Take | End):
        assert verdict.shard.state in TASK_MOVES[shard.state]
        assert verdict.shard.attempt == shard.attempt + isinstance(verdict, Take)
        assert not stopping or not isinstance(verdict, Take)
    if isinstance(verdict, Wait):
        assert verdict.ms > 0


@given(shards.filter(lambda s: s.state is TaskState.RUNNING), st.sampled_from(list(Outcome)), st.booleans())
def test_a_report_ends_a_task_or_makes_it_ready_and_a_stopping_step_only_ends(
    shard: Shard, outcome: Outcome, stopping: bool
) -> None:
    after = report(shard, outcome, stopping=stopping)
    assert after.state in TASK_MOVES[TaskState.RUNNING]
    assert after.state.ended or (after.state is TaskState.READY and not stopping)
    assert after.failures >= shard.failures
    assert after.rejections >= shard.rejections


@given(shards)
def test_a_returned_task_does_not_count_and_keeps_its_attempt(shard: Shard) -> None:
    after = on_hand_back(shard, NOW)
    assert after.attempt == shard.attempt
    assert (after.failures, after.losses, after.rejections) == (
        shard.failures,
        shard.losses,
        shard.rejections,
    )


@given(st.integers(1, 10_000), st.integers(0, 10_000), st.integers(0, 100))
def test_a_percentage_tolerates_the_equivalent_count(total: int, failures: int, percent: int) -> None:
    assert too_many_failures(f"{percent}%", failures, total) == (failures > percent * total / 100)


@given(st.integers(0, 100), st.integers(0, 100))
def test_a_count_tolerates_itself(tolerated: int, failures: int) -> None:
    assert too_many_failures(tolerated, failures, 100) == (failures > tolerated)
