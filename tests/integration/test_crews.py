"""Who runs what: bounces, skip lists, failures in a row, tasks that nobody can run, bound types."""

from __future__ import annotations

from typing import Any

import pytest

from shardmill.engine.groups import matching
from shardmill.engine.tasks import messages
from shardmill.engine.workers import registry
from shardmill.model.actor import Actor
from shardmill.model.worker import Registration
from shardmill.store.rows import WorkerRow
from support.hands import Hands
from support.play import Play

OPERATOR = Actor("operator")
COMMAND = {"stepName": "a", "command": {"name": "/opt/bin/blast", "args": "x"}}


def opened(play: Play) -> None:
    play.cloud.run_until(lambda: play.job()["steps"] and play.row(0).token)


def row_of(play: Play, hands: Hands) -> WorkerRow:
    return registry.read(play.mill, hands.worker.id)


@pytest.mark.parametrize(
    ("apps", "need", "fits"),
    [
        (["*"], "anything", True),
        (["blast"], "blast", True),
        (["blast"], "/opt/bin/blast", True),
        (["/opt/bin/blast"], "/opt/bin/blast", True),
        (["blast"], "blaster", False),
        (["shell"], "python", False),
        ([], "noop", True),
    ],
)
def test_apps(apps: list[str], need: str, fits: bool) -> None:
    assert matching.runs(apps, need) is fits


def test_a_bounce_waits_longer_each_time_and_a_minute_at_most() -> None:
    assert [matching.bounce_seconds(n) for n in (1, 2, 3, 6, 7, 500)] == [1, 2, 4, 32, 60, 60]


def test_a_worker_that_cannot_run_a_task_passes_it_on_uncounted(play: Play) -> None:
    play.define(COMMAND)
    play.submit()
    opened(play)
    wrong = Hands(play.mill, "wrong", apps=["fasta"])
    assert wrong.take() == []
    play.cloud.run_until(lambda: play.leased, meanwhile=lambda: play.leased.extend(play.hands.take()))
    [held] = play.leased
    assert held.attempt == 1
    play.hands.report([held])
    play.cloud.run_until(lambda: play.job()["state"] == "SUCCESS")
    assert [attempt["attempt"] for attempt in play.task("a", 0)["attempts"]] == [1]


def test_a_task_nobody_can_run_is_shown_and_runs_at_once_when_somebody_can(play: Play) -> None:
    registry.suspend(play.mill, play.hands.worker.id, OPERATOR, "")
    wrong = Hands(play.mill, "wrong", apps=["fasta"])
    play.define(COMMAND)
    play.submit()
    opened(play)
    play.mill.recent_workers.discard("default")
    assert wrong.take() == []
    [sentence] = play.job()["waitingFor"]
    assert "no live worker of group default runs '/opt/bin/blast'" in sentence
    able = Hands(play.mill, "able", apps=["blast"])
    play.cloud.run_until(lambda: play.job()["waitingFor"] == [])
    [held] = able.take()  # the bounced message is hidden: this one was sent for the newcomer
    able.report([held])
    play.cloud.run_until(lambda: play.job()["state"] == "SUCCESS")


def test_a_resumed_worker_gets_at_once_what_waited_for_it(play: Play) -> None:
    play.define(COMMAND)
    play.submit()
    opened(play)
    registry.suspend(play.mill, play.hands.worker.id, OPERATOR, "lunch")
    wrong = Hands(play.mill, "wrong", apps=["fasta"])
    assert wrong.take() == []
    registry.resume(play.mill, play.hands.worker.id, play.hands.clock())
    assert len(play.hands.take()) == 1


def test_a_group_without_workers_is_shown(play: Play) -> None:
    play.cloud.http("PUT", "/v1/groups/empty", {})
    play.define({"stepName": "a"}, workerGroup="empty")
    play.submit()
    opened(play)
    assert play.job()["waitingFor"] == ["step a: group empty has no live worker"]


def test_a_failure_is_tried_again_by_another_worker(play: Play) -> None:
    play.define({"stepName": "a"}, failedRetries=2, failedInterval=0)
    play.submit()
    other = Hands(play.mill, "other")
    play.hands.report(play.take(1), "failed")
    assert row_of(play, play.hands).skip == {play.leased[0].task_id}
    assert play.hands.take() == []  # it bounces, because the other is alive
    again: list[Any] = []
    play.cloud.run_until(lambda: again, meanwhile=lambda: again.extend(other.take()))
    assert again[0].attempt == 2


def test_a_failure_is_tried_again_by_the_same_worker_if_it_is_alone(play: Play) -> None:
    play.define({"stepName": "a"}, failedRetries=1, failedInterval=0)
    play.submit()
    play.hands.report(play.take(1), "failed")
    assert [held.attempt for held in play.take(1)] == [2]


def test_five_failures_in_a_row_suspend_a_worker_and_say_so(play: Play) -> None:
    play.define({"stepName": "a", "sharding": 12}, failedRetries=0)
    play.submit()
    held = play.take(10)
    play.hands.report(held[:4], "failed")
    play.hands.report(held[4:5], "success")
    play.hands.report(held[5:9], "failed")
    assert row_of(play, play.hands).takes_tasks
    play.hands.report(held[9:], "failed")
    worker = play.cloud.http("GET", f"/v1/workers/{play.hands.worker.id}").json
    assert worker["activity"] == "suspended"
    assert "5 failures in a row" in worker["notes"]
    assert (worker["totalCompleted"], worker["totalFailed"], len(worker["skipWork"])) == (1, 9, 9)
    asked = {"workerId": play.hands.worker.id, "max": 1}
    refused = play.cloud.http("POST", "/v1/work:lease", asked)
    assert (refused.status, refused.json["code"]) == (409, "worker-suspended")
    assert "hands" in play.job()["waitingFor"][0]
    answer = play.cloud.http("POST", f"/v1/workers/{play.hands.worker.id}:resume")
    assert (answer.status, answer.json["activity"], answer.json["notes"]) == (200, "idle", "")
    assert len(play.cloud.http("POST", "/v1/work:lease", asked).json["items"]) == 1


def test_rejections_and_losses_do_not_tire_a_worker(play: Play) -> None:
    play.define({"stepName": "a", "sharding": 8}, rejectInterval=0)
    play.submit()
    play.hands.report(play.take(8), "rejected")
    assert row_of(play, play.hands).failures == 0
    assert row_of(play, play.hands).takes_tasks


def test_a_new_process_is_forgiven_its_failures_but_not_the_operator(play: Play) -> None:
    play.mill.workers.change(play.hands.worker.id, tired="too many failures", failures=5)
    assert not row_of(play, play.hands).takes_tasks
    assert Hands(play.mill, "hands").worker.takes_tasks
    registry.suspend(play.mill, play.hands.worker.id, OPERATOR, "broken disk")
    again = Hands(play.mill, "hands").worker
    assert not again.takes_tasks
    assert again.notes == "suspended by operator: broken disk"


def test_a_rejected_task_fails_with_the_reasons_after_its_retries(play: Play) -> None:
    play.define({"stepName": "a"}, rejectRetries=1, rejectInterval=0)
    play.submit()
    for _ in range(2):
        play.hands.report(play.take(1), "rejected", reason="load 9 is above --max-load 4")
    play.cloud.run_until(lambda: play.job()["state"] == "FAILED")
    attempts = play.task("a", 0)["attempts"]
    assert [(each["reason"], each["message"]) for each in attempts] == [
        ("rejected", "load 9 is above --max-load 4")
    ] * 2
    assert "load 9 is above" in play.job()["notes"]


def test_a_type_is_bound_to_a_group(play: Play) -> None:
    play.cloud.http("PUT", "/v1/groups/pythons", {"types": ["python"]})
    play.cloud.http("PUT", "/v1/groups/own", {})
    play.define(
        {"stepName": "bound", "type": "python", "content": "m:f"},
        {"stepName": "named", "type": "python", "content": "m:f", "workerGroup": "own"},
        {"stepName": "other", "type": "shell", "content": "true"},
        workerGroup="own",
    )
    play.submit()
    play.cloud.run_until(lambda: play.job()["steps"])
    groups = {step["stepName"]: step["workerGroups"] for step in play.job()["steps"]}
    assert groups == {"bound": ["pythons"], "named": ["own"], "other": ["own"]}


def test_a_step_of_several_groups_goes_where_workers_are(play: Play) -> None:
    for name in ("dead", "alive"):
        play.cloud.http("PUT", f"/v1/groups/{name}", {})
    alive = Hands(play.mill, "alive", ["alive"])
    play.define({"stepName": "a", "sharding": 6}, workerGroups=["dead", "alive"])
    play.submit()
    opened(play)
    taken: list[Any] = []
    play.cloud.run_until(lambda: len(taken) == 6, meanwhile=lambda: taken.extend(alive.take()))


def test_tasks_in_the_queue_of_a_group_that_died_go_to_the_one_that_lives(play: Play) -> None:
    for name in ("one", "two"):
        play.cloud.http("PUT", f"/v1/groups/{name}", {})
    one, two = (Hands(play.mill, name, [name]) for name in ("one", "two"))
    play.define({"stepName": "a", "sharding": 6}, workerGroups=["one", "two"])
    play.submit()
    opened(play)
    two.report(two.take())
    one.beat([], offline=True)
    clock = two.clock
    two.clock = lambda: clock() + 180_000
    two.beat([])
    play.tick(minutes=3)
    play.cloud.run_until(lambda: play.job()["state"] == "SUCCESS", meanwhile=lambda: two.work())


@pytest.mark.parametrize("late", [False, True])
def test_a_note_of_stuck_tasks_and_a_newcomer_never_miss_each_other(
    play: Play, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    """The newcomer registers between the bouncer's look at the crew and its note, or just after the note."""
    registry.suspend(play.mill, play.hands.worker.id, OPERATOR, "")
    wrong = Hands(play.mill, "wrong", apps=["fasta"])
    play.define(COMMAND)
    play.submit()
    opened(play)
    newcomers: list[Hands] = []
    note = play.mill.groups.note_stuck

    def meanwhile(*given: Any, **named: Any) -> None:
        if late:
            note(*given, **named)
        newcomers.append(Hands(play.mill, "able", apps=["blast"]))
        if not late:
            note(*given, **named)

    monkeypatch.setattr(play.mill.groups, "note_stuck", meanwhile)
    assert wrong.take() == []
    [able] = newcomers
    held: list[Any] = []
    play.cloud.run_until(lambda: held, meanwhile=lambda: held.extend(able.take()))
    assert list(play.mill.groups.stuck("default")) == []


def test_a_worker_has_one_membership_a_group_until_it_leaves(play: Play) -> None:
    registration = Registration(name="twice", groups=["default", "default"])
    for _ in range(2):
        row = registry.register(play.mill, registration, play.hands.clock())
    members = [worker.name for worker in play.mill.workers.of_group("default")]
    assert sorted(members) == ["hands", "twice"]
    registry.heartbeat(play.mill, row.id, row.session, [], offline=True, now=play.hands.clock())
    assert [worker.name for worker in play.mill.workers.of_group("default")] == ["hands"]


def two_groups(play: Play) -> tuple[Hands, Hands]:
    for name in ("one", "two"):
        play.cloud.http("PUT", f"/v1/groups/{name}", {})
    return Hands(play.mill, "one", ["one"]), Hands(play.mill, "two", ["two"], apps=["*"])


def test_what_one_group_failed_at_goes_to_the_other(play: Play) -> None:
    one, two = two_groups(play)
    play.define({"stepName": "a"}, workerGroups=["one", "two"], failedRetries=3, failedInterval=0)
    play.submit()
    opened(play)
    first: list[Any] = []
    play.cloud.run_until(lambda: first, meanwhile=lambda: first.extend(one.take() or two.take()))
    holder = one if play.task("a", 0)["worker"] == one.worker.id else two
    other = two if holder is one else one
    holder.report(first, "failed")
    again: list[Any] = []

    def work() -> None:
        assert holder.take() == []
        again.extend(other.take())

    play.cloud.run_until(lambda: again, meanwhile=work)
    assert again[0].attempt == 2


def test_what_one_group_cannot_run_goes_to_the_other(play: Play) -> None:
    one, two = two_groups(play)
    one = Hands(play.mill, "one", ["one"], apps=["fasta"])
    play.define(COMMAND, workerGroups=["one", "two"])
    play.submit()
    opened(play)
    step = play.row(0)
    group = play.mill.groups.get("one")
    assert group is not None
    messages.send_to(play.mill, [group.queues[1]], (step.job_id, 1, 0), step.gen, [0])
    assert one.take() == []
    assert len(two.take()) == 1
