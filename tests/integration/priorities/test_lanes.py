"""The lanes of a group: added before the first message of a priority, removed when they are not used."""

from __future__ import annotations

from contextlib import suppress

import pytest

from shardmill.engine.groups import deployment, groups, lanes
from shardmill.engine.tasks import messages
from shardmill.model.groups.group import GroupRequest
from shardmill.model.groups.lanes import BANDS, MAX_LANES, UNUSED_MS
from shardmill.store.rows import GroupRow
from support.aws_rules.call import Call
from support.aws_rules.faults import Faults
from support.fakes.lambda_server import FunctionError
from support.scenarios.job_runner import JobRunner
from support.scenarios.worker_api import message_count, start_tasks

MINUTE = 60
UNUSED_SECONDS = UNUSED_MS // 1000


def group_of(runner: JobRunner, name: str = "default") -> GroupRow:
    row = runner.mill.groups.get(name)
    assert row is not None
    return row


def priorities(runner: JobRunner) -> set[int]:
    return set(group_of(runner).lane_table.lanes)


def beat_each_minute(runner: JobRunner, *, first: float, minutes: int) -> None:
    for minute in range(minutes):
        runner.later(first + minute * MINUTE)
        runner.worker.beat([])


def use(runner: JobRunner, *wanted: int) -> None:
    for priority in wanted:
        lanes.queue_for(runner.mill, group_of(runner), priority)


def test_unused_lanes_are_removed_by_heartbeats_within_minutes(runner: JobRunner) -> None:
    use(runner, 5, 6, 7, 8)
    beat_each_minute(runner, first=0, minutes=2)
    assert priorities(runner) == {1, 5, 6, 7, 8}
    beat_each_minute(runner, first=UNUSED_SECONDS, minutes=2)
    assert priorities(runner) == {1}
    assert len(group_of(runner).lane_table.order()) == len(BANDS)


def test_a_lane_with_messages_is_kept_however_long_they_wait(runner: JobRunner) -> None:
    """Whether a task waits, runs, or waits for its retry: visible, hidden and delayed messages count."""
    start_tasks(runner, 3, priority=5, failedRetries=2, failedInterval=600)
    use(runner, 8)
    running, failed = runner.take(2)
    runner.worker.report([failed], "failed")
    beat_each_minute(runner, first=0, minutes=1)
    runner.worker.beat([running])
    beat_each_minute(runner, first=2 * MINUTE, minutes=20)
    assert priorities(runner) == {5}


def test_a_group_with_one_priority_is_neither_written_nor_checked(runner: JobRunner, faults: Faults) -> None:
    """Opening a step, leasing, reporting and heartbeats cost no more than before there were lanes."""
    start_tasks(runner, 3)
    runner.run()
    beat_each_minute(runner, first=0, minutes=5)
    assert faults.meter.calls["sqs.GetQueueAttributes"] == 0
    assert group_of(runner).lanes == {}
    assert group_of(runner).lanes_checked == 0


def test_one_worker_checks_the_lanes_once_a_minute(runner: JobRunner, faults: Faults) -> None:
    use(runner, 5)
    for second in range(0, MINUTE, 5):
        runner.later(second)
        runner.worker.beat([])
    assert faults.meter.calls["sqs.GetQueueAttributes"] == len(priorities(runner))


def test_a_sender_reclaims_a_lane_that_was_marked_as_unused(runner: JobRunner) -> None:
    use(runner, 5)
    beat_each_minute(runner, first=0, minutes=1)
    assert group_of(runner).lane_table.lanes[5].unused_since
    start_tasks(runner, 1, priority=5)
    assert not group_of(runner).lane_table.lanes[5].unused_since
    beat_each_minute(runner, first=UNUSED_SECONDS, minutes=5)
    assert 5 in priorities(runner)
    assert len(runner.take(1)) == 1


def test_a_claim_and_a_removal_at_the_same_time_leave_a_polled_lane(runner: JobRunner) -> None:
    use(runner, 5)
    beat_each_minute(runner, first=0, minutes=1)
    marked = group_of(runner)
    removed = marked.lane_table.after_check({5}, runner.worker.clock() + UNUSED_MS)
    for claims_first in (False, True):
        if not claims_first:
            runner.mill.groups.change_lanes(marked, removed)
        claimed = lanes.queue_for(runner.mill, marked, 5)
        runner.mill.groups.change_lanes(marked, removed)  # refused: the lane was claimed
        table = group_of(runner).lane_table
        assert claimed == marked.queues[table.lanes[5].queue]
        runner.mill.groups.change_lanes(group_of(runner), marked.lane_table)


def test_two_senders_add_different_priorities_at_the_same_time(runner: JobRunner) -> None:
    seen = group_of(runner)
    first = lanes.queue_for(runner.mill, seen, 5)
    second = lanes.queue_for(runner.mill, seen, 6)
    again = lanes.queue_for(runner.mill, seen, 5)
    assert (first != second, again) == (True, first)
    assert priorities(runner) == {1, 5, 6}


def test_a_message_in_a_removed_lane_is_sent_again_by_the_tick(runner: JobRunner) -> None:
    """Its sender was delayed for minutes after it looked up the lane."""
    use(runner, 5, 6)  # the queues of the bands are taken
    start_tasks(runner, 2, priority=7)
    step, row = runner.row(0), group_of(runner)
    unused = row.queues[MAX_LANES - 1]
    runner.mill.queues.delete(runner.worker.receive())
    messages.send_to(runner.mill, [messages.Route(unused)], step.key, step.gen, [0, 1])
    assert runner.worker.take() == []
    runner.later(3 * MINUTE)
    runner.worker.beat([])
    runner.mill.forget_workers(["default"])
    runner.tick(minutes=3)
    assert runner.run()["state"] == "SUCCESS"


@pytest.mark.parametrize("how", ["before", "after", "throttle", "crash"])
def test_a_lane_is_added_when_its_write_fails(runner: JobRunner, faults: Faults, how: str) -> None:
    def adds_lane(call: Call) -> bool:
        return "lanes" in call.params.get("ExpressionAttributeNames", {}).values()

    runner.define({"stepName": "a", "sharding": 2}, priority=5)
    fault = faults.fail("dynamodb", "UpdateItem", how=how, when=adds_lane)  # type: ignore[arg-type]
    with suppress(FunctionError):
        runner.submit()
    for minutes in (2, 4):
        with suppress(FunctionError):
            runner.tick(minutes=minutes)
    assert runner.run()["state"] == "SUCCESS"
    assert fault.hits == 1


def test_a_failed_check_does_not_fail_the_heartbeat(runner: JobRunner, faults: Faults) -> None:
    use(runner, 5)
    faults.fail("sqs", "GetQueueAttributes")
    beat_each_minute(runner, first=0, minutes=4)
    assert priorities(runner) == {1}


def test_a_group_of_an_earlier_release_gets_the_missing_queues(runner: JobRunner) -> None:
    """When its stack is updated, or when it is saved; its messages stay where they are."""
    start_tasks(runner, 3, priority=20)
    runner.cloud.http("PUT", "/v1/groups/later", {})
    for name in ("default", "later"):
        row = group_of(runner, name)
        runner.mill.queues.remove(row.queues[len(BANDS) :])
        runner.mill.groups.set_queues(row, row.queues[: len(BANDS)])
    runner.mill.recent_groups.discard("default")
    use(runner, 5, 6, 7)
    assert len(priorities(runner)) == len(BANDS)
    groups.save(runner.mill, "later", GroupRequest(lease_seconds=30), 0)
    deployment.set_up(runner.mill, 0, lambda seconds: pytest.fail("refused"))
    for name in ("default", "later"):
        assert len(set(group_of(runner, name).queues)) == MAX_LANES
    use(runner, 7)
    assert priorities(runner) == {1, 20, 5, 7}
    assert message_count(runner) == 3
    assert runner.run()["state"] == "SUCCESS"
