"""Leases, reports and retries match a reference model for any behaviour of workers, queues and clocks.

The table and the lanes are moto's, and so is what hides a message; the time is the test's, for all of them.
LEASE_LAW_EXAMPLES=300 looks harder, LEASE_LAW_SHRINK=1 makes what it finds short, which takes minutes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from moto.dynamodb.models import dynamodb_backends
from moto.dynamodb.models.dynamo_type import DynamoType
from moto.sqs import models as moto_sqs

from shardmill.aws import clients
from shardmill.aws.queues import Message, Queues, Ticket
from shardmill.aws.settings import Settings
from shardmill.engine.errors import ForeignTask, StaleSession, WorkerSuspended
from shardmill.engine.groups import groups
from shardmill.engine.groups.matching import WorkerSession
from shardmill.engine.groups.totals import record_totals
from shardmill.engine.jobs.plan import graph
from shardmill.engine.mill import Mill
from shardmill.engine.orchestrate import act
from shardmill.engine.task_id import task_id
from shardmill.engine.tasks import attempts
from shardmill.engine.tasks.interruption import hand_back
from shardmill.engine.tasks.lease import lease
from shardmill.engine.tasks.report import report
from shardmill.engine.workers import registry
from shardmill.engine.workers.poll import pull
from shardmill.model.actor import Actor
from shardmill.model.blocks import BLOCK_SIZE, Shard, block_count, block_size
from shardmill.model.definition.fields import JobDefine
from shardmill.model.states import JobState, TaskState
from shardmill.model.worker import (
    GroupRequest,
    HandedBack,
    Lease,
    LeaseRequest,
    Registration,
    Reported,
    Result,
)
from shardmill.store import keys
from shardmill.store.codec import decode_item
from shardmill.store.rows import JobRow, StepRow, WorkerRow
from shardmill.store.workers import Tally
from support.aws_rules.faults import Faults
from support.aws_rules.queues import Receipts
from support.moto.cloud import Cloud
from support.moto.moto_cloud import shuffle_queues
from support.moto.stack import ACCOUNT, REGION
from support.scenarios.job_runner import JobRunner
from support.scenarios.lease_model import LEASE, Limits, Model, Task, Worker
from support.scenarios.manual_worker import ManualWorker

EXAMPLES = int(os.environ.get("LEASE_LAW_EXAMPLES", "8"))
SHRINK = bool(os.environ.get("LEASE_LAW_SHRINK"))
STEPS = 40
BEGIN = 1_800_000_000_000
GROUP = "laws"
APPS = {"any": ("*",), "other": ("*",), "half": ("shell",), "unfit": ("fasta",)}
CREWS = [["other"], ["other", "half"], ["half"], []]
"""The workers besides `any` and `unfit`."""

REASONS = {"failed", "lost", "timed-out", "rejected", "discarded"}
OPERATOR = Actor("operator")

WHO = st.integers(0, 11)
MOST = st.integers(1, 10)
PICK = st.integers(0, 30)
PICKS = st.lists(st.integers(0, 12), max_size=5)
LATER = st.sampled_from([0, 0, 0, 0, 6, 26, 45, 61, 80])
"""Seconds that pass before something happens."""

OUTCOMES = st.lists(
    st.sampled_from(
        [
            ("success", None),
            ("failed", None),
            ("failed", "exit code 3"),
            ("failed", "timed-out"),
            ("failed", "discarded"),
            ("failed-permanent", "exit code 42"),
            ("rejected", "load 9 is above --max-load 4"),
            ("rejected", None),
        ]
    ),
    min_size=1,
    max_size=4,
)
SHAPES = st.lists(
    st.tuples(
        st.sampled_from([(3, None), (4, None), (5, 2), (8, None), (12, 4), (67, 64)]),
        st.sampled_from(["shell", "python"]),
        st.sampled_from([1, 10]),
        st.builds(
            Limits,
            failed_retries=st.integers(0, 3),
            failed_interval=st.sampled_from([0, 5, 30]),
            failed_backoff=st.integers(1, 2),
            reject_retries=st.integers(0, 2),
            reject_interval=st.sampled_from([0, 7]),
            lost_retries=st.integers(0, 2),
            timeout=st.sampled_from([None, None, 10, 60, 300]),
        ),
    ),
    min_size=1,
    max_size=2,
)
"""Of each step: tasks and `maxTaskCount`, type, priority, rules."""


class Clock:
    def __init__(self) -> None:
        self.ms = BEGIN

    def __call__(self) -> int:
        return self.ms


class ModelWorker(ManualWorker):
    """A worker on the test's clock that records the leases it believes to hold."""

    def __init__(self, mill: Mill, clock: Clock, name: str) -> None:
        self.mill, self.clock = mill, clock
        registration = Registration(name=name, groups=[GROUP], apps=list(APPS.get(name, ("*",))))
        self.row = registry.register(mill, registration, clock())
        self.name, self.session = name, self.row.session
        self.held: dict[str, Lease] = {}

    def ask(self, most: int) -> list[Lease]:
        request = LeaseRequest(worker_id=self.row.id, session=self.session, max=most)
        return pull(self.mill, request, self.clock)

    def tell(self, results: Sequence[Result], *, trusted: bool) -> list[Reported]:
        """As the API does it, or as a worker with a role."""
        tally = Tally()
        told = report(self.mill, self.row.id, results, self.clock(), tally=tally, trusted=trusted)
        if tally.done or tally.skip:
            row = record_totals(self.mill, self.row.id, tally, self.clock())
            assert row is not None
            if row.session == self.session:
                self.row = row
        return told

    def hand_back(self, leases: Sequence[Lease]) -> list[str]:
        tasks = [HandedBack(task_id=had.task_id, attempt=had.attempt, receipt=had.receipt) for had in leases]
        given = hand_back(self.mill, self.row.id, tasks, self.clock())
        if given:
            record_totals(self.mill, self.row.id, Tally(done=set(given)), self.clock())
        return given


class NotedQueues(Queues):
    """Records the last received messages."""

    received: list[Message]

    def receive(self, url: str, *, most: int, wait: int, hide: int) -> list[Message]:
        found = super().receive(url, most=most, wait=wait, hide=hide)
        self.received += found
        return found


class Laws(RuleBasedStateMachine):
    def __init__(self, cloud: Cloud, clock: Clock) -> None:
        super().__init__()
        self.clock = clock
        self.clock.ms = BEGIN
        self.table = dynamodb_backends[ACCOUNT][REGION].get_table(cloud.table)
        self.table.items.clear()
        settings_ = Settings.from_environment()
        self.queues = NotedQueues(clients.sqs(), settings_.dead_queue)
        self.queues.received = []
        self.mill = replace(Mill.connect(settings_), queues=self.queues)
        request = GroupRequest(kind="pull", lease_seconds=LEASE // 1000)
        self.group, _ = groups.save(self.mill, GROUP, request, clock())
        self.model = Model([])
        self.workers: list[ModelWorker] = []
        self.zombies: list[ModelWorker] = []
        self.history: list[tuple[ModelWorker, Lease]] = []
        self.final: dict[str, Shard] = {}
        self.steps: list[StepRow] = []
        self.job_id = "00000000-0000-7000-8000-000000000001"
        self.said: dict[tuple[str, int], tuple[str, str | None]] = {}
        """The last report of each attempt: outcome and reason."""
        self.lies: set[tuple[str, int]] = set()
        """Attempts of which a worker with a role said what contradicts how they ended: it is believed."""

    # the beginning

    @initialize(shapes=SHAPES, crew=st.sampled_from(CREWS))
    def begin(self, shapes: list[tuple[tuple[int, int | None], str, int, Limits]], crew: list[str]) -> None:
        steps = [
            {
                "stepName": f"s{at}",
                "type": kind,
                "content": "true" if kind == "shell" else "m:f",
                "sharding": total,
                "maxTaskCount": window,
                "priority": priority,
                "failedRetries": limits.failed_retries,
                "failedInterval": limits.failed_interval,
                "failedBackoff": limits.failed_backoff,
                "rejectRetries": limits.reject_retries,
                "rejectInterval": limits.reject_interval,
                "lostRetries": limits.lost_retries,
                "timeoutSeconds": limits.timeout,
            }
            for at, ((total, window), kind, priority, limits) in enumerate(shapes)
        ]
        with self.acting():
            self._open(JobDefine.model_validate({"jobName": "laws", "workerGroups": [GROUP], "steps": steps}))
            needs = [(kind, limits) for _, kind, _, limits in shapes]
            self.model = Model(
                Task(task_id(step, rank), kind, limits)
                for step, (kind, limits) in zip(self.steps, needs, strict=True)
                for rank in range(step.total)
            )
            for name in ["any", *crew, "unfit"]:
                self._join(name)
        self.take(0, 10, [], 0)

    def _open(self, define: JobDefine) -> None:
        """What plan and the state machines do, without executions."""
        now = self.clock()
        job = JobRow(self.job_id, 1, "laws", "t1", 1, JobState.QUEUED, "hash", now, now)
        self.mill.jobs.create(job, due=now)
        self.mill.jobs.add_steps(job, graph(define, job, now, {}))
        for index in range(len(define.steps)):
            event: dict[str, Any] = {"action": "open", "jobId": job.id, "run": 1, "step": index}
            opened = act(self.mill, event, now)
            for item in opened["ranges"]:
                event |= {"action": "enqueue", "item": item, "queues": opened["queues"], "gen": opened["gen"]}
                act(self.mill, event, now)
        self.steps = [step for step in self.mill.jobs.steps(job.id, 1) if step.kind == "step"]

    def _join(self, name: str) -> ModelWorker:
        hand = ModelWorker(self.mill, self.clock, name)
        self.model.crew[name] = Worker(APPS.get(name, ("*",)), self.clock())
        self.workers.append(hand)
        return hand

    # what happens

    @rule(who=WHO, most=MOST, again=PICKS, later=LATER)
    def take(self, who: int, most: int, again: list[int], later: int) -> None:
        """Messages come to a worker that asks over HTTP, some of them at the wrong time."""
        with self.acting(later):
            self._show_again(again)
            self._take(self._hand(who), most)

    @rule(who=WHO, most=MOST, again=PICKS, later=LATER)
    def take_directly(self, who: int, most: int, again: list[int], later: int) -> None:
        """To one with a role, which knows of itself only what it heard last."""
        with self.acting(later):
            self._show_again(again)
            self._take(self._hand(who), most, direct=True)

    @rule(who=WHO, most=MOST, again=PICKS, direct=st.booleans(), later=LATER)
    def take_unheard(self, who: int, most: int, again: list[int], direct: bool, later: int) -> None:
        """The response never reaches the worker."""
        with self.acting(later):
            self._show_again(again)
            self._take(self._hand(who), most, direct=direct, heard=False)

    @precondition(lambda self: self._holders())
    @rule(who=WHO, most=MOST, outcomes=OUTCOMES, trusted=st.booleans(), later=LATER)
    def finish(
        self, who: int, most: int, outcomes: list[tuple[str, str | None]], trusted: bool, later: int
    ) -> None:
        """A worker reports the tasks that it believes to hold, in time or late."""
        self._finish(who, most, outcomes, trusted, later)

    @precondition(lambda self: self._holders())
    @rule(who=WHO, other=WHO, most=MOST, later=LATER)
    def fail(self, who: int, other: int, most: int, later: int) -> None:
        """A worker fails; the messages come back to it, then to another, perhaps too early."""
        hand, failed = self._finish(who, most, [("failed", None)], True, 0)
        with self.acting(later):
            self._beat(self.workers[0])
            self._show(failed)
            self._take(hand, 10)
        with self.acting():
            self._show(failed)
            self._take(self._hand(other), 10)

    def _finish(
        self, who: int, most: int, outcomes: list[tuple[str, str | None]], trusted: bool, later: int
    ) -> tuple[ModelWorker, list[str]]:
        holders = self._holders()
        hand = holders[who % len(holders)]
        with self.acting(later):
            leases = list(hand.held.values())[:most]
            told = [(had, *outcomes[at % len(outcomes)]) for at, had in enumerate(leases)]
            self._report(hand, told, trusted=trusted)
            for had in leases:
                del hand.held[had.task_id]
        return hand, [had.task_id for had in leases]

    @precondition(lambda self: self.history)
    @rule(
        pick=PICK,
        by=st.sampled_from(["owner", "holder"]) | WHO,
        outcome=st.none() | st.sampled_from(["success", "failed", "rejected", "failed-permanent"]),
        ahead=st.sampled_from([0, 0, 0, 1]),
        trusted=st.booleans(),
        repeat=st.sampled_from(["no", "then", "with"]),
        later=LATER,
    )
    def report_anything(
        self,
        pick: int,
        by: int | str,
        outcome: str | None,
        ahead: int,
        trusted: bool,
        repeat: str,
        later: int,
    ) -> None:
        """A worker reports an attempt that any worker once held, with any outcome, maybe twice."""
        owner, had = self._history()[pick % len(self.history)]
        holder = self.model.tasks[had.task_id].holder
        by_name = {hand.name: hand for hand in self.workers}
        hand = self._hand(by) if isinstance(by, int) else owner if by == "owner" else by_name[holder]
        said = (outcome, None) if outcome else self.said.get((had.task_id, had.attempt), ("failed", None))
        told = [(had.model_copy(update={"attempt": had.attempt + ahead}), *said)]
        trusted = trusted and not ahead  # a worker with a role keeps attempts and receipts together
        with self.acting(later):
            first = self._report(hand, told * 2 if repeat == "with" else told, trusted=trusted)
            if repeat == "then":
                again = self._report(hand, told, trusted=trusted)
                assert again == (["already"] if first == ["ok"] else first)

    @precondition(lambda self: self.history)
    @rule(pick=PICK, by=st.none() | WHO, most=st.integers(1, 3), later=LATER)
    def give_back(self, pick: int, by: int | None, most: int, later: int) -> None:
        first = pick % len(self.history)
        leases = [had for _, had in self._history()[first : first + most]]
        hand = self._history()[first][0] if by is None else self._hand(by)
        with self.acting(later):
            self._hand_back(hand, leases)

    @rule(who=st.none() | WHO, omit=st.sampled_from([0, 0, 1, 3]), later=LATER)
    def beat(self, who: int | None, omit: int, later: int) -> None:
        """Heartbeats, of one or of all; a worker may not know of all that it leased."""
        with self.acting(later):
            for hand in self.workers if who is None else [self._hand(who)]:
                self._beat(hand, omit=omit)

    @precondition(lambda self: self._holders())
    @rule(who=WHO, other=WHO, direct=st.booleans())
    def work_long(self, who: int, other: int, direct: bool) -> None:
        """A worker beats well beyond its first lease; then others get the messages of its tasks."""
        holders = self._holders()
        hand = holders[who % len(holders)]
        for _ in range(4):
            with self.acting(20):
                self._beat(hand)
        with self.acting():
            self._show(hand.held)
            self._take(self._hand(other), 10, direct=direct)

    @precondition(lambda self: self.history)
    @rule(who=WHO, pick=PICK, later=LATER)
    def claim_anything(self, who: int, pick: int, later: int) -> None:
        """A heartbeat names a task that another worker holds or held."""
        hand, (_, had) = self._hand(who), self._history()[pick % len(self.history)]
        with self.acting(later):
            self._claim(hand, had)

    @rule(
        who=WHO,
        what=st.sampled_from(["suspend", "resume", "resume", "come back", "come back", "leave"]),
        later=LATER,
    )
    def fate(self, who: int, what: str, later: int) -> None:
        hand = self.workers[who % len(self.workers)]
        me = self.model.crew[hand.name]
        with self.acting(later):
            if what == "suspend":
                registry.suspend(self.mill, hand.row.id, OPERATOR, "")
                me.suspended = True
            elif what == "resume":
                registry.resume(self.mill, hand.row.id, self.clock())
                me.resumed()
            elif what == "come back":
                self._come_back(hand)
            else:
                self._leave(hand)

    @rule(picks=PICKS, seed=st.integers(0, 9))
    def queues_stutter(self, picks: list[int], seed: int) -> None:
        """Messages are delivered twice, even of ended tasks, and in any order."""
        with self.acting():
            for task in self._picked(picks):
                step, rank = self._place(task.id)
                queue = self.group.queues[0 if step.priority >= 10 else 1]
                self.queues.send(queue, [Ticket(step.job_id, step.run, step.index, step.gen, rank)])
            shuffle_queues(Random(seed))

    # how it happens

    def _hand(self, who: int) -> ModelWorker:
        """Somebody, the unfit one half as often as the others."""
        everybody = [*self.workers[:-1], *self.workers, *self.zombies]
        return everybody[who % len(everybody)]

    def _holders(self) -> list[ModelWorker]:
        return [hand for hand in [*self.workers, *self.zombies] if hand.held]

    def _history(self) -> list[tuple[ModelWorker, Lease]]:
        """All leases, newest first, but before them those with a newer one that still holds."""

        def place(at: int) -> tuple[bool, int]:
            had = self.history[at][1]
            task = self.model.tasks[had.task_id]
            return not (task.running and task.attempt > had.attempt), -at

        return [self.history[at] for at in sorted(range(len(self.history)), key=place)]

    def _take(self, hand: ModelWorker, most: int, *, direct: bool = False, heard: bool = True) -> bool:
        """Whether there were messages."""
        me = self.model.crew[hand.name]
        self.queues.received = []
        if direct:
            if not hand.row.takes_tasks or me.gone:
                return False
            messages, skip = hand.receive(most), set(hand.row.skip)
            leases = lease(self.mill, WorkerSession.of(hand.row), messages, self.clock())
        else:
            if hand.session != me.session or me.gone or not me.takes_tasks:
                gone = hand.session != me.session or me.gone
                with pytest.raises(StaleSession if gone else WorkerSuspended):
                    hand.ask(most)
                assert not self.queues.received
                return False
            leases, skip = hand.ask(most), set(me.skip)
        expected = self._delivered(hand, skip)
        assert sorted((each.task_id, each.attempt) for each in leases) == sorted(expected)
        if not direct:
            me.claims |= {each.task_id for each in leases}
        if heard:
            hand.held |= {each.task_id: each for each in leases}
            self.history += [(hand, each) for each in leases]
        return bool(self.queues.received)

    def _delivered(self, hand: ModelWorker, skip: set[str]) -> list[tuple[str, int]]:
        now = self.clock()
        tickets = [ticket for each in self.queues.received if (ticket := Ticket.decode(each.body))]
        names = dict.fromkeys(f"{ticket.job_id}_{ticket.step}_{ticket.rank}" for ticket in tickets)
        tasks = [self.model.tasks[name] for name in names]
        suits = [self.model.suits(hand.name, task, skip, now) for task in tasks]
        return [
            (task.id, task.attempt)
            for task, suited in zip(tasks, suits, strict=True)
            if self.model.delivered(hand.name, hand.session, task, suited, now)
        ]

    def _report(
        self, hand: ModelWorker, told: Sequence[tuple[Lease, str, str | None]], *, trusted: bool = False
    ) -> list[str]:
        results, expected = [], []
        for had, outcome, reason in told:
            self.said[had.task_id, had.attempt] = (outcome, reason)
            words = f"{outcome} of attempt {had.attempt}"
            results.append(
                Result(
                    task_id=had.task_id,
                    attempt=had.attempt,
                    receipt=had.receipt,
                    outcome=outcome,
                    reason=reason,
                    stderr=words,
                )
            )
            task = self.model.tasks[had.task_id]
            expected.append(
                self.model.reported(hand.name, task, had.attempt, outcome, reason or "", words, self.clock())
            )
            if trusted and task.ends.get(had.attempt, ("", ""))[1] != words:
                self.lies.add((had.task_id, had.attempt))
        statuses = [item.status for item in hand.tell(results, trusted=trusted)]
        assert [status == "ok" for status in statuses] == expected, statuses
        self.model.crew[hand.name].skip |= {
            had.task_id
            for (had, outcome, reason), status in zip(told, statuses, strict=True)
            if status == "already" and outcome != "success" and reason != "discarded"
        }
        return statuses

    def _hand_back(self, hand: ModelWorker, leases: Sequence[Lease]) -> None:
        assert hand.hand_back(leases) == [
            had.task_id
            for had in leases
            if self.model.handed_back(hand.name, self.model.tasks[had.task_id], had.attempt, self.clock())
        ]

    def _beat(self, hand: ModelWorker, *, omit: int = 0) -> None:
        """It is told to drop exactly what it does not hold, and what outlived its time."""
        me, now = self.model.crew[hand.name], self.clock()
        if me.gone:
            return
        named = list(hand.held.values())[omit:]
        late = {
            had.task_id
            for had in named
            if self.model.end_if_overdue(hand.name, self.model.tasks[had.task_id], had.attempt, now)
        }
        if hand.session != me.session:
            with pytest.raises(StaleSession):
                hand.beat(named)
            return
        dropped = hand.beat(named)
        tasks = {had.task_id: (self.model.tasks[had.task_id], had.attempt) for had in named}
        kept = {
            name
            for name, (task, attempt) in tasks.items()
            if task.is_held(hand.name, attempt) and task.session == hand.session
        }
        assert sorted(dropped) == sorted(set(tasks) - kept)
        me.seen = now
        me.claims = {
            name
            for name, (task, attempt) in tasks.items()
            if name not in late and (task.holder, task.attempt) == (hand.name, attempt)
        }
        for name in dropped:
            del hand.held[name]

    def _claim(self, hand: ModelWorker, had: Lease) -> None:
        task = self.model.tasks[had.task_id]
        if task.attempt <= had.attempt and task.holder != hand.name:
            with pytest.raises(ForeignTask):
                hand.beat([had])

    def _come_back(self, hand: ModelWorker) -> None:
        """A new process of the same name starts; the old one continues."""
        self.zombies = [*self.zombies[-1:], hand]
        self.workers[self.workers.index(hand)] = ModelWorker(self.mill, self.clock, hand.name)
        self.model.crew[hand.name].born_again(self.clock())

    def _leave(self, hand: ModelWorker) -> None:
        """A worker stops: it returns its tasks and deregisters."""
        self._hand_back(hand, list(hand.held.values()))
        hand.held = {}
        hand.beat([], offline=True)
        me = self.model.crew[hand.name]
        me.seen, me.gone, me.claims = self.clock(), True, set()

    # queues

    def _messages(self) -> Iterator[tuple[str, moto_sqs.Message]]:
        for url in self.group.queues:
            queue = moto_sqs.sqs_backends[ACCOUNT][REGION].queues[url.rsplit("/", 1)[1]]
            for message in queue._messages:
                ticket = Ticket.decode(message.body)
                assert ticket is not None
                yield f"{ticket.job_id}_{ticket.step}_{ticket.rank}", message

    def _picked(self, picks: Iterable[int]) -> list[Task]:
        """Tasks whose turn has come, the most tried first."""
        turn = [task for task in self.model.tasks.values() if self._turn(task)]
        turn.sort(key=lambda task: (task.ended, -task.attempt))
        return [turn[pick % len(turn)] for pick in picks]

    def _show_again(self, picks: Iterable[int]) -> None:
        self._show({task.id for task in self._picked(picks)})

    def _show(self, names: Container[str]) -> None:
        """SQS may deliver any message at any time: these come next."""
        shown = [message for name, message in self._messages() if name in names]
        for message in shown:
            message.visible_at = message.delayed_until = 0.0
        for url in self.group.queues:
            queue = moto_sqs.sqs_backends[ACCOUNT][REGION].queues[url.rsplit("/", 1)[1]]
            queue._messages.sort(key=lambda message: message not in shown)

    # the laws

    def _row(self, key: keys.Key) -> dict[str, Any]:
        """A row as the table has it; looking into moto is much quicker than asking it."""
        item = self.table.items.get(DynamoType({"S": key["pk"]}), {}).get(DynamoType({"S": key["sk"]}))
        return decode_item(item.to_json()["Attributes"]) if item else {}

    def _place(self, task: str) -> tuple[StepRow, int]:
        _, index, rank = task.rsplit("_", 2)
        return self.steps[int(index)], int(rank)

    def _turn(self, task: Task) -> bool:
        """`maxTaskCount` is exact: task i + window has its turn when task i has ended."""
        step, rank = self._place(task.id)
        return rank < step.window or self.model.tasks[task_id(step, rank - step.window)].ended

    @contextmanager
    def acting(self, later: int = 0) -> Iterator[None]:
        """Something happens, some seconds later; then the rows are as the model says."""
        self.clock.ms += later * 1000 + 1
        self.mill.recent_workers.discard(GROUP)
        yield
        self._compare_tasks()
        self._compare_workers()
        self._check_messages()

    def _compare_tasks(self) -> None:
        now = self.clock()
        for step in self.steps:
            for number in range(block_count(step.total)):
                row = self._row(keys.block(step.job_id, step.run, step.index, number))
                for at in range(block_size(step.total, number)):
                    task = self.model.tasks[task_id(step, number * BLOCK_SIZE + at)]
                    shard = Shard.decode(row[str(at)]) if str(at) in row else Shard()
                    if task.running and shard.state is not TaskState.RUNNING:  # whoever looks may end it
                        self.model.end_if_lost(task, now)
                    self._compare(task, shard)

    def _compare(self, task: Task, shard: Shard) -> None:
        counts = (shard.failures, shard.losses, shard.rejections)
        seen = (shard.state.value, shard.attempt, counts)
        assert seen == (task.state, task.attempt, (task.failures, task.losses, task.rejections)), task
        if task.running:
            worker = f"{registry.worker_id(task.holder)}.{task.session}"
            assert (shard.worker, shard.time) == (worker, task.since), task
        elif task.ended:
            assert self.final.setdefault(task.id, shard) == shard, "an end changed"
        elif task.attempt:
            assert shard.time == task.not_before, task
        assert task.attempt == 0 or self._turn(task), f"{task} has no turn yet"

    def _compare_workers(self) -> None:
        for name, me in self.model.crew.items():
            row = WorkerRow.from_item(self._row(keys.worker(registry.worker_id(name))))
            decided = (row.session, row.suspended, bool(row.tired))
            assert decided == (me.session, me.suspended, me.tired), name
            totals = (row.completed, row.failed, row.failures, row.skip)
            assert totals == (me.completed, me.failed, me.failures_in_a_row, me.skip), name

    def _check_messages(self) -> None:
        """An open task whose turn it is has a message, which shows when it must; none has one before."""
        shows: dict[str, float] = {}
        for name, message in self._messages():
            assert self._turn(self.model.tasks[name]), f"a message of {name} before its turn"
            shown = max(message.visible_at, message.delayed_until)
            shows[name] = min(shows.get(name, shown), shown)
        for task in self.model.tasks.values():
            if not task.ended and self._turn(task):
                assert task.id in shows, f"no message is left of {task}"
                latest = max(self.clock() + LEASE, task.not_before) + 1000
                assert shows[task.id] <= latest, f"the message of {task} hides too long"

    # the end

    def teardown(self) -> None:
        try:
            if self.steps and sys.exc_info()[0] is None:  # else a law is broken, or the example is not valid
                self._finish_all()
                self._check_attempts()
                self._close()
        finally:
            self.queues.remove(self.group.queues)

    def _finish_all(self) -> None:
        """One correct worker completes all tasks and leaves no messages."""
        self.workers, self.zombies = [], []
        with self.acting():
            honest = self._join("honest")
        for _ in range(12):
            self.clock.ms += LEASE + 1000
            found = True
            while found:
                with self.acting():
                    found = self._take(honest, 10)
                    self._report(honest, [(had, "success", None) for had in honest.held.values()])
                    honest.held = {}
            if not list(self._messages()):
                break
        assert all(task.ended for task in self.model.tasks.values())
        assert not list(self._messages())

    def _close(self) -> None:
        ends = []
        for step in self.steps:
            now = self.clock()
            act(self.mill, {"action": "close", "jobId": step.job_id, "run": 1, "step": step.index}, now)
            row = self.mill.jobs.step(step.job_id, 1, step.index)
            assert row is not None
            states = [self.model.tasks[task_id(step, rank)].state for rank in range(step.total)]
            counts = (row.success, row.failed, row.killed)
            assert counts == (states.count("SUCCESS"), states.count("FAILED"), 0)
            assert row.state == ("FAILED" if "FAILED" in states else "SUCCESS")
            ends.append(row.state)
        job = self.mill.jobs.get(self.job_id)
        assert job is not None
        assert job.state == ("FAILED" if "FAILED" in ends else "SUCCESS")

    def _check_attempts(self) -> None:
        """Each attempt ends once, and its record does not change with later reports."""
        for task in self.model.tasks.values():
            assert list(task.ends) == list(range(1, task.attempt + 1))
            if task.attempt == 1 and task.state == "SUCCESS":
                continue
            told = {number: entry for number, entry in self._told(task) if (task.id, number) not in self.lies}
            for number, (how, words) in task.ends.items():
                if (task.id, number) in self.lies:
                    continue
                if how == "handed-back":
                    assert number not in told, task
                    continue
                if how == "timed-out" and words:
                    continue  # not once test_a_late_repeat_leaves_what_was_kept_of_an_attempt passes
                assert number in told, (task, number)
                entry = told[number]
                assert entry.get("reason") == (None if how == "success" else how), (task, entry)
                assert not words or entry["stderr"] == words, (task, entry)

    def _told(self, task: Task) -> list[tuple[int, dict[str, Any]]]:
        entries = [
            (each["attempt"], each) for each in attempts.list_attempts(self.mill, *self._place(task.id))
        ]
        numbers = [number for number, _ in entries]
        assert numbers == sorted(set(numbers)), f"an attempt of {task} is told twice"
        assert set(numbers) <= set(task.ends), task
        assert {each.get("reason") for _, each in entries} <= {None, *REASONS}
        return entries


@contextmanager
def clock_of_queues(clock: Clock) -> Iterator[None]:
    with (
        patch.object(moto_sqs, "unix_time_millis", lambda: float(clock())),
        patch.object(moto_sqs, "unix_time", lambda: clock() / 1000),
    ):
        yield


@pytest.mark.timeout(3600)
def test_leases_reports_and_retries_obey_the_model(cloud: Cloud) -> None:
    clock = Clock()
    with clock_of_queues(clock), Faults(rules=False) as faults:
        faults.add_rule(Receipts().around)

        def laws() -> Laws:
            faults.calls.clear()
            return Laws(cloud, clock)

        run_state_machine_as_test(
            laws,
            settings=settings(
                max_examples=EXAMPLES,
                stateful_step_count=STEPS,
                derandomize=True,
                database=None,
                deadline=None,
                phases=[Phase.generate, *([Phase.shrink] if SHRINK else [])],
                suppress_health_check=list(HealthCheck),
            ),
        )


def taken(cloud: Cloud) -> tuple[JobRunner, Lease]:
    runner = JobRunner(cloud)
    runner.define({"stepName": "a"}, failedRetries=1, failedInterval=0)
    runner.submit()
    [held] = runner.take(1)
    return runner, held


def test_a_result_twice_in_one_report_counts_once(cloud: Cloud) -> None:
    runner, held = taken(cloud)
    assert [item.status for item in runner.worker.report([held, held])] == ["ok", "already"]
    assert runner.worker.row.completed == 1


@pytest.mark.parametrize("reason", ["exit code 3", "timed-out"])
def test_a_late_repeat_leaves_what_was_kept_of_an_attempt(cloud: Cloud, reason: str) -> None:
    """The answer to a report was lost; when it is sent again, another attempt has begun."""
    runner, held = taken(cloud)
    told = {"reason": reason, "stderr": "boom", "exitCode": 3, "endTime": datetime.now(UTC)}
    runner.worker.report([held], "failed", **told)
    runner.take(1)
    before = runner.task("a", 0)["attempts"]
    runner.worker.report([held], "failed", **told)
    assert runner.task("a", 0)["attempts"] == before


def test_a_task_passed_on_is_not_lost_again(cloud: Cloud) -> None:
    """It was lost once; now it comes, with one that nobody had yet, to a worker that failed at it."""
    runner = JobRunner(cloud)
    runner.define({"stepName": "a", "sharding": 2}, failedRetries=3, failedInterval=0)
    runner.submit()
    messages: list[Message] = []
    runner.cloud.run_until(
        lambda: len(messages) == 2, meanwhile=lambda: messages.extend(runner.worker.receive())
    )
    first = [each for each in messages if (ticket := Ticket.decode(each.body)) and ticket.rank == 0]

    def take(received: Sequence[Message]) -> list[Lease]:
        return lease(runner.mill, WorkerSession.of(runner.worker.row), received, runner.worker.clock())

    take(first)
    runner.later(61)
    runner.worker.beat([])
    runner.worker.report(take(first), "failed")
    other = ManualWorker(runner.mill, "other")
    other.clock = runner.worker.clock
    other.beat([])
    assert [held.sharding.index for held in take(messages)] == [1]
    attempts = runner.task("a", 0)["attempts"]
    assert [(each["attempt"], each["reason"]) for each in attempts] == [(1, "lost"), (2, "failed")]
