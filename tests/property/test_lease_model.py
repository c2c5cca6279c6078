"""Leases, reports and retries match a reference model for any behaviour of workers, queues and clocks.

Table, queues and visibility timeouts are moto's; the clock is the test's.
LEASE_EXAMPLES=300 runs more examples, LEASE_SHRINK=1 shrinks a failing one, which takes minutes.
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
from shardmill.aws.queues import Message, Ticket
from shardmill.aws.settings import Settings
from shardmill.engine.errors import ForeignTask, StaleSession, WorkerSuspended
from shardmill.engine.groups import groups
from shardmill.engine.groups.matching import WorkerSession
from shardmill.engine.jobs.effective import effective_steps
from shardmill.engine.jobs.graph import graph
from shardmill.engine.mill import Mill
from shardmill.engine.orchestrate import act
from shardmill.engine.task_id import task_id
from shardmill.engine.tasks import attempts
from shardmill.engine.tasks.lease import lease
from shardmill.engine.workers import registry
from shardmill.model.actor import Actor
from shardmill.model.blocks import BLOCK_SIZE, Shard, block_count, block_size
from shardmill.model.definition.fields import JobDefine
from shardmill.model.groups.group import GroupRequest
from shardmill.model.states import JobState, TaskState
from shardmill.model.worker import Lease, Result
from shardmill.store import keys
from shardmill.store.codec import decode_item
from shardmill.store.rows import JobRow, StepRow, WorkerRow
from shardmill.store.tasks import keys as task_keys
from support.aws_rules.faults import Faults
from support.aws_rules.queues import Receipts
from support.aws_rules.stale_reads import StaleReads, stale_reads
from support.moto.cloud import Cloud
from support.moto.moto_cloud import shuffle_queues
from support.moto.stack import ACCOUNT, REGION
from support.scenarios.job_runner import JobRunner
from support.scenarios.leases.lease_model import LEASE, Limits, Model, Task, Worker
from support.scenarios.leases.lease_model_worker import ModelWorker, RecordingQueues
from support.scenarios.manual_clock import BEGIN, ManualClock, queue_clock
from support.scenarios.manual_worker import ManualWorker

EXAMPLES = int(os.environ.get("LEASE_EXAMPLES", "8"))
SHRINK = bool(os.environ.get("LEASE_SHRINK"))
STEPS = 40
GROUP = "leases"
APPS = {"any": ("*",), "other": ("*",), "half": ("shell",), "unfit": ("fasta",)}
OTHER_WORKERS = [["other"], ["other", "half"], ["half"], []]
"""The workers besides `any` and `unfit`."""

REASONS = {"failed", "lost", "timed-out", "rejected", "discarded"}
OPERATOR = Actor("operator")

WORKER = st.integers(0, 11)
MOST = st.integers(1, 10)
PICK = st.integers(0, 30)
PICKS = st.lists(st.integers(0, 12), max_size=5)
DELAY = st.sampled_from([0, 0, 0, 0, 6, 26, 45, 61, 80])
"""Seconds before a rule runs."""

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
"""Of each step: tasks and `maxTaskCount`, type, priority, limits."""


class LeaseMachine(RuleBasedStateMachine):
    def __init__(self, cloud: Cloud, clock: ManualClock, stale: StaleReads) -> None:
        super().__init__()
        self.clock, self.stale = clock, stale
        self.clock.ms = BEGIN
        self.table = dynamodb_backends[ACCOUNT][REGION].get_table(cloud.table)
        self.table.items.clear()
        self.stale.begin(seed=0)
        settings_ = Settings.from_environment()
        self.queues = RecordingQueues(clients.sqs(), settings_.dead_queue)
        self.queues.received = []
        self.mill = replace(Mill.connect(settings_), queues=self.queues)
        request = GroupRequest(kind="pull", lease_seconds=LEASE // 1000)
        self.group, _ = groups.save(self.mill, GROUP, request, clock())
        self.model = Model([])
        self.workers: list[ModelWorker] = []
        self.superseded: list[ModelWorker] = []
        self.history: list[tuple[ModelWorker, Lease]] = []
        self.final: dict[str, Shard] = {}
        self.steps: list[StepRow] = []
        self.job_id = "00000000-0000-7000-8000-000000000001"
        self.reports: dict[tuple[str, int], tuple[str, str | None]] = {}
        """The last report of each attempt: outcome and reason."""
        self.contradictions: set[tuple[str, int]] = set()
        """Attempts whose end a later report of a direct worker contradicts; that report is recorded."""

    @initialize(shapes=SHAPES, others=st.sampled_from(OTHER_WORKERS), aws_seed=st.integers(0, 99))
    def begin(
        self,
        shapes: list[tuple[tuple[int, int | None], str, int, Limits]],
        others: list[str],
        aws_seed: int,
    ) -> None:
        self.stale.begin(aws_seed)
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
        with self.checked():
            self._open(
                JobDefine.model_validate({"jobName": "leases", "workerGroups": [GROUP], "steps": steps})
            )
            needs = [(kind, limits) for _, kind, _, limits in shapes]
            self.model = Model(
                Task(task_id(step, rank), kind, limits)
                for step, (kind, limits) in zip(self.steps, needs, strict=True)
                for rank in range(step.total)
            )
            for name in ["any", *others, "unfit"]:
                self._join(name)
        self.take(0, 10, [], 0)

    def _open(self, define: JobDefine) -> None:
        """Plan and open the Job as the state machines do, without executions."""
        now = self.clock()
        job = JobRow(self.job_id, 1, "leases", "t1", 1, JobState.QUEUED, "hash", now, now)
        self.mill.jobs.create(job, due=now)
        self.mill.jobs.add_steps(job, graph(effective_steps(define, job, {}), job, now))
        for index in range(len(define.steps)):
            event: dict[str, Any] = {"action": "open", "jobId": job.id, "run": 1, "step": index}
            opened = act(self.mill, event, now)
            for item in opened["ranges"]:
                event |= {"action": "enqueue", "item": item, "queues": opened["queues"], "gen": opened["gen"]}
                act(self.mill, event, now)
        self.steps = [step for step in self.mill.jobs.steps(job.id, 1) if step.kind == "step"]

    def _join(self, name: str) -> ModelWorker:
        worker = ModelWorker(self.mill, self.clock, name, GROUP, APPS.get(name, ("*",)))
        self.model.workers[name] = Worker(APPS.get(name, ("*",)), self.clock())
        self.workers.append(worker)
        return worker

    # rules

    @rule(number=WORKER, most=MOST, redelivered=PICKS, delay=DELAY)
    def take(self, number: int, most: int, redelivered: list[int], delay: int) -> None:
        """A worker leases over HTTP; some messages are delivered at the wrong time."""
        with self.checked(delay):
            self._redeliver(redelivered)
            self._take(self._choose_worker(number), most)

    @rule(number=WORKER, most=MOST, redelivered=PICKS, delay=DELAY)
    def take_directly(self, number: int, most: int, redelivered: list[int], delay: int) -> None:
        """A direct worker leases; it knows its row only from its last heartbeat or report."""
        with self.checked(delay):
            self._redeliver(redelivered)
            self._take(self._choose_worker(number), most, direct=True)

    @rule(number=WORKER, most=MOST, redelivered=PICKS, direct=st.booleans(), delay=DELAY)
    def take_without_response(
        self, number: int, most: int, redelivered: list[int], direct: bool, delay: int
    ) -> None:
        """The response never reaches the worker."""
        with self.checked(delay):
            self._redeliver(redelivered)
            self._take(self._choose_worker(number), most, direct=direct, received=False)

    @precondition(lambda self: self._holders())
    @rule(number=WORKER, most=MOST, outcomes=OUTCOMES, trusted=st.booleans(), delay=DELAY)
    def finish(
        self, number: int, most: int, outcomes: list[tuple[str, str | None]], trusted: bool, delay: int
    ) -> None:
        """A worker reports tasks that it believes it holds, in time or late."""
        self._finish(number, most, outcomes, trusted, delay)

    @precondition(lambda self: self._holders())
    @rule(number=WORKER, other=WORKER, most=MOST, delay=DELAY)
    def fail(self, number: int, other: int, most: int, delay: int) -> None:
        """A worker fails tasks; their messages are delivered to it, then to another, perhaps too early."""
        worker, failed = self._finish(number, most, [("failed", None)], True, 0)
        with self.checked(delay):
            self._beat(self.workers[0])
            self._deliver_next(failed)
            self._take(worker, 10)
        with self.checked():
            self._deliver_next(failed)
            self._take(self._choose_worker(other), 10)

    def _finish(
        self, number: int, most: int, outcomes: list[tuple[str, str | None]], trusted: bool, delay: int
    ) -> tuple[ModelWorker, list[str]]:
        holders = self._holders()
        worker = holders[number % len(holders)]
        with self.checked(delay):
            leases = list(worker.held.values())[:most]
            results = [(held, *outcomes[at % len(outcomes)]) for at, held in enumerate(leases)]
            self._report(worker, results, trusted=trusted)
            for held in leases:
                del worker.held[held.task_id]
        return worker, [held.task_id for held in leases]

    @precondition(lambda self: self.history)
    @rule(
        pick=PICK,
        by=st.sampled_from(["owner", "holder"]) | WORKER,
        outcome=st.none() | st.sampled_from(["success", "failed", "rejected", "failed-permanent"]),
        ahead=st.sampled_from([0, 0, 0, 1]),
        trusted=st.booleans(),
        repeat=st.sampled_from(["no", "then", "with"]),
        delay=DELAY,
    )
    def report_anything(
        self,
        pick: int,
        by: int | str,
        outcome: str | None,
        ahead: int,
        trusted: bool,
        repeat: str,
        delay: int,
    ) -> None:
        """A worker reports an attempt that any worker held, with any outcome, perhaps twice."""
        owner, held = self._history()[pick % len(self.history)]
        holder = self.model.tasks[held.task_id].holder
        by_name = {worker.name: worker for worker in self.workers}
        worker = (
            self._choose_worker(by) if isinstance(by, int) else owner if by == "owner" else by_name[holder]
        )
        last = (
            (outcome, None) if outcome else self.reports.get((held.task_id, held.attempt), ("failed", None))
        )
        results = [(held.model_copy(update={"attempt": held.attempt + ahead}), *last)]
        trusted = trusted and not ahead  # a direct worker keeps attempts and receipts together
        with self.checked(delay):
            first = self._report(worker, results * 2 if repeat == "with" else results, trusted=trusted)
            if repeat == "then":
                second = self._report(worker, results, trusted=trusted)
                assert second == (["already"] if first == ["ok"] else first)

    @precondition(lambda self: self.history)
    @rule(pick=PICK, by=st.none() | WORKER, most=st.integers(1, 3), delay=DELAY)
    def hand_back(self, pick: int, by: int | None, most: int, delay: int) -> None:
        first = pick % len(self.history)
        leases = [held for _, held in self._history()[first : first + most]]
        worker = self._history()[first][0] if by is None else self._choose_worker(by)
        with self.checked(delay):
            self._hand_back(worker, leases)

    @rule(number=st.none() | WORKER, omit=st.sampled_from([0, 0, 1, 3]), delay=DELAY)
    def beat(self, number: int | None, omit: int, delay: int) -> None:
        """Send heartbeats of one worker or of all; they may omit tasks."""
        with self.checked(delay):
            for worker in self.workers if number is None else [self._choose_worker(number)]:
                self._beat(worker, omit=omit)

    @precondition(lambda self: self._holders())
    @rule(number=WORKER, other=WORKER, direct=st.booleans())
    def extend_leases(self, number: int, other: int, direct: bool) -> None:
        """Heartbeats extend a lease; then another worker receives the messages of the tasks."""
        holders = self._holders()
        worker = holders[number % len(holders)]
        for _ in range(4):
            with self.checked(20):
                self._beat(worker)
        with self.checked():
            self._deliver_next(worker.held)
            self._take(self._choose_worker(other), 10, direct=direct)

    @precondition(lambda self: self.history)
    @rule(number=WORKER, pick=PICK, delay=DELAY)
    def claim_anything(self, number: int, pick: int, delay: int) -> None:
        """A heartbeat lists a task that another worker holds or held."""
        worker, (_, held) = self._choose_worker(number), self._history()[pick % len(self.history)]
        with self.checked(delay):
            self._claim(worker, held)

    @rule(
        number=WORKER,
        what=st.sampled_from(["suspend", "resume", "resume", "restart", "restart", "leave"]),
        delay=DELAY,
    )
    def control_worker(self, number: int, what: str, delay: int) -> None:
        worker = self.workers[number % len(self.workers)]
        me = self.model.workers[worker.name]
        with self.checked(delay):
            if what == "suspend":
                registry.suspend(self.mill, worker.row.id, OPERATOR, "")
                me.suspended = True
            elif what == "resume":
                registry.resume(self.mill, worker.row.id, self.clock())
                me.resumed()
            elif what == "restart":
                self._restart(worker)
            else:
                self._leave(worker)

    @rule(picks=PICKS, seed=st.integers(0, 9))
    def deliver_messages_twice(self, picks: list[int], seed: int) -> None:
        """Messages are delivered twice, even those of ended tasks, and in any order."""
        with self.checked():
            for task in self._picked(picks):
                step, rank = self._place(task.id)
                queue = self.group.queues[0 if step.priority >= 10 else 1]
                self.queues.send(queue, [Ticket(step.job_id, step.run, step.index, step.gen, rank)])
            shuffle_queues(Random(seed))

    # actions and their expected results

    def _choose_worker(self, number: int) -> ModelWorker:
        """Choose a worker, the unfit one half as often as the others."""
        candidates = [*self.workers[:-1], *self.workers, *self.superseded]
        return candidates[number % len(candidates)]

    def _holders(self) -> list[ModelWorker]:
        return [worker for worker in [*self.workers, *self.superseded] if worker.held]

    def _history(self) -> list[tuple[ModelWorker, Lease]]:
        """All leases, newest first; those whose task runs in a newer attempt come before all others."""

        def place(at: int) -> tuple[bool, int]:
            held = self.history[at][1]
            task = self.model.tasks[held.task_id]
            return not (task.running and task.attempt > held.attempt), -at

        return [self.history[at] for at in sorted(range(len(self.history)), key=place)]

    def _take(self, worker: ModelWorker, most: int, *, direct: bool = False, received: bool = True) -> bool:
        """Lease tasks, compare them with the model; return whether there were messages."""
        me = self.model.workers[worker.name]
        self.queues.received = []
        if direct:
            if not worker.row.takes_tasks or me.offline:
                return False
            messages, skip = worker.receive(most), set(worker.row.skip)
            leases = lease(self.mill, WorkerSession.of(worker.row), messages, self.clock())
        else:
            if worker.session != me.session or me.offline or not me.takes_tasks:
                offline = worker.session != me.session or me.offline
                with pytest.raises(StaleSession if offline else WorkerSuspended):
                    worker.lease(most)
                assert not self.queues.received
                return False
            leases, skip = worker.lease(most), set(me.skip)
        expected = self._delivered(worker, skip)
        assert sorted((each.task_id, each.attempt) for each in leases) == sorted(expected)
        if not direct:
            me.claims |= {each.task_id for each in leases}
        if received:
            worker.held |= {each.task_id: each for each in leases}
            self.history += [(worker, each) for each in leases]
        return bool(self.queues.received)

    def _delivered(self, worker: ModelWorker, skip: set[str]) -> list[tuple[str, int]]:
        now = self.clock()
        tickets = [ticket for each in self.queues.received if (ticket := Ticket.decode(each.body))]
        names = dict.fromkeys(f"{ticket.job_id}_{ticket.step}_{ticket.rank}" for ticket in tickets)
        tasks = [self.model.tasks[name] for name in names]
        suits = [self.model.suits(worker.name, task, skip, now) for task in tasks]
        return [
            (task.id, task.attempt)
            for task, suited in zip(tasks, suits, strict=True)
            if self.model.delivered(worker.name, worker.session, task, suited, now)
        ]

    def _report(
        self, worker: ModelWorker, given: Sequence[tuple[Lease, str, str | None]], *, trusted: bool = False
    ) -> list[str]:
        results, expected = [], []
        for held, outcome, reason in given:
            self.reports[held.task_id, held.attempt] = (outcome, reason)
            text = f"{outcome} of attempt {held.attempt}"
            results.append(
                Result(
                    task_id=held.task_id,
                    attempt=held.attempt,
                    receipt=held.receipt,
                    outcome=outcome,
                    reason=reason,
                    stderr=text,
                )
            )
            task = self.model.tasks[held.task_id]
            expected.append(
                self.model.reported(
                    worker.name, task, held.attempt, outcome, reason or "", text, self.clock()
                )
            )
            if trusted and task.ends.get(held.attempt, ("", ""))[1] != text:
                self.contradictions.add((held.task_id, held.attempt))
        statuses = [item.status for item in worker.report_results(results, trusted=trusted)]
        assert [status == "ok" for status in statuses] == expected, statuses
        self.model.workers[worker.name].skip |= {
            held.task_id
            for (held, outcome, reason), status in zip(given, statuses, strict=True)
            if status == "already" and outcome != "success" and reason != "discarded"
        }
        return statuses

    def _hand_back(self, worker: ModelWorker, leases: Sequence[Lease]) -> None:
        assert worker.hand_back(leases) == [
            held.task_id
            for held in leases
            if self.model.handed_back(worker.name, self.model.tasks[held.task_id], held.attempt, self.clock())
        ]

    def _beat(self, worker: ModelWorker, *, omit: int = 0) -> None:
        """The response drops exactly the tasks that the worker does not hold or that timed out."""
        me, now = self.model.workers[worker.name], self.clock()
        if me.offline:
            return
        listed = list(worker.held.values())[omit:]
        late = {
            held.task_id
            for held in listed
            if self.model.end_if_overdue(worker.name, self.model.tasks[held.task_id], held.attempt, now)
        }
        if worker.session != me.session:
            with pytest.raises(StaleSession):
                worker.beat(listed)
            return
        dropped = worker.beat(listed)
        tasks = {held.task_id: (self.model.tasks[held.task_id], held.attempt) for held in listed}
        still_held = {
            name
            for name, (task, attempt) in tasks.items()
            if task.is_held(worker.name, attempt) and task.session == worker.session
        }
        assert sorted(dropped) == sorted(set(tasks) - still_held)
        me.seen = now
        me.claims = {
            name
            for name, (task, attempt) in tasks.items()
            if name not in late and (task.holder, task.attempt) == (worker.name, attempt)
        }
        for name in dropped:
            del worker.held[name]

    def _claim(self, worker: ModelWorker, held: Lease) -> None:
        task = self.model.tasks[held.task_id]
        if task.attempt <= held.attempt and task.holder != worker.name:
            with pytest.raises(ForeignTask):
                worker.beat([held])

    def _restart(self, worker: ModelWorker) -> None:
        """Start a new process with the same name; the old one continues."""
        self.superseded = [*self.superseded[-1:], worker]
        self.workers[self.workers.index(worker)] = ModelWorker(
            self.mill, self.clock, worker.name, GROUP, worker.row.apps
        )
        self.model.workers[worker.name].restarted(self.clock())

    def _leave(self, worker: ModelWorker) -> None:
        """Stop a worker: it hands back its tasks and deregisters."""
        self._hand_back(worker, list(worker.held.values()))
        worker.held = {}
        worker.beat([], offline=True)
        me = self.model.workers[worker.name]
        me.seen, me.offline, me.claims = self.clock(), True, set()

    # queues

    def _messages(self) -> Iterator[tuple[str, moto_sqs.Message]]:
        for url in self.group.queues:
            queue = moto_sqs.sqs_backends[ACCOUNT][REGION].queues[url.rsplit("/", 1)[1]]
            for message in queue._messages:
                ticket = Ticket.decode(message.body)
                assert ticket is not None
                yield f"{ticket.job_id}_{ticket.step}_{ticket.rank}", message

    def _picked(self, picks: Iterable[int]) -> list[Task]:
        """Tasks within the window, those with the most attempts first."""
        tasks = [task for task in self.model.tasks.values() if self._in_window(task)]
        tasks.sort(key=lambda task: (task.ended, -task.attempt))
        return [tasks[pick % len(tasks)] for pick in picks]

    def _redeliver(self, picks: Iterable[int]) -> None:
        self._deliver_next({task.id for task in self._picked(picks)})

    def _deliver_next(self, names: Container[str]) -> None:
        """Deliver these messages next: SQS may deliver any message at any time."""
        shown = [message for name, message in self._messages() if name in names]
        for message in shown:
            message.visible_at = message.delayed_until = 0.0
        for url in self.group.queues:
            queue = moto_sqs.sqs_backends[ACCOUNT][REGION].queues[url.rsplit("/", 1)[1]]
            queue._messages.sort(key=lambda message: message not in shown)

    # comparison of the rows with the model

    def _row(self, key: keys.Key) -> dict[str, Any]:
        """Read a row from moto's memory: its API is much slower."""
        item = self.table.items.get(DynamoType({"S": key["pk"]}), {}).get(DynamoType({"S": key["sk"]}))
        return decode_item(item.to_json()["Attributes"]) if item else {}

    def _place(self, task: str) -> tuple[StepRow, int]:
        _, index, rank = task.rsplit("_", 2)
        return self.steps[int(index)], int(rank)

    def _in_window(self, task: Task) -> bool:
        """`maxTaskCount` is exact: task i + window is sent when task i has ended."""
        step, rank = self._place(task.id)
        return rank < step.window or self.model.tasks[task_id(step, rank - step.window)].ended

    @contextmanager
    def checked(self, delay: int = 0) -> Iterator[None]:
        """Advance the clock, run the block, and compare the rows with the model."""
        self.clock.ms += delay * 1000 + 1
        self.mill.forget_workers([GROUP])
        yield
        self._compare_tasks()
        self._compare_workers()
        self._check_messages()

    def _compare_tasks(self) -> None:
        now = self.clock()
        for step in self.steps:
            for number in range(block_count(step.total)):
                row = self._row(task_keys.block(step.job_id, step.run, step.index, number))
                for at in range(block_size(step.total, number)):
                    task = self.model.tasks[task_id(step, number * BLOCK_SIZE + at)]
                    shard = Shard.decode(row[str(at)]) if str(at) in row else Shard()
                    if task.running and shard.state is not TaskState.RUNNING:  # any reader may end it
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
            assert self.final.setdefault(task.id, shard) == shard, "the final state of a task changed"
        elif task.attempt:
            assert shard.time == task.not_before, task
        assert task.attempt == 0 or self._in_window(task), f"{task} is not in the window yet"

    def _compare_workers(self) -> None:
        for name, me in self.model.workers.items():
            row = WorkerRow.from_item(self._row(keys.worker(registry.worker_id(name))))
            if row.tired and not me.suspended_after_failures:  # the engine compares it with other workers
                assert me.may_be_suspended, name
                assert self.model.completed_elsewhere(name), name
                me.suspended_after_failures = True
            status = (row.session, row.suspended, bool(row.tired))
            assert status == (me.session, me.suspended, me.suspended_after_failures), name
            totals = (row.completed, row.failed, row.failures, row.skip)
            assert totals == (me.completed, me.failed, me.consecutive_failures, me.skip), name

    def _check_messages(self) -> None:
        """Each open task within the window has a message that becomes visible in time; others have none."""
        visible: dict[str, float] = {}
        for name, message in self._messages():
            assert self._in_window(self.model.tasks[name]), f"{name} has a message before it is in the window"
            time = max(message.visible_at, message.delayed_until)
            visible[name] = min(visible.get(name, time), time)
        for task in self.model.tasks.values():
            if not task.ended and self._in_window(task):
                assert task.id in visible, f"{task} has no message"
                latest = max(self.clock() + LEASE, task.not_before) + 1000
                assert visible[task.id] <= latest, f"the message of {task} stays hidden too long"

    # end of an example

    def teardown(self) -> None:
        try:
            if self.steps and sys.exc_info()[0] is None:  # otherwise the example failed or is invalid
                self._finish_all()
                self._check_attempts()
                self._close()
        finally:
            self.queues.remove(self.group.queues)

    def _finish_all(self) -> None:
        """A worker without faults completes all tasks and leaves no messages."""
        self.workers, self.superseded = [], []
        with self.checked():
            reliable = self._join("reliable")
        for _ in range(12):
            self.clock.ms += LEASE + 1000
            found = True
            while found:
                with self.checked():
                    found = self._take(reliable, 10)
                    self._report(reliable, [(held, "success", None) for held in reliable.held.values()])
                    reliable.held = {}
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
            recorded = {
                number: entry
                for number, entry in self._recorded_attempts(task)
                if (task.id, number) not in self.contradictions
            }
            for number, (how, text) in task.ends.items():
                if (task.id, number) in self.contradictions:
                    continue
                if how == "timed-out" and text:
                    continue  # not compared: see test_a_late_repeated_report_does_not_change_an_attempt
                assert number in recorded, (task, number)
                entry = recorded[number]
                reason = {"success": None, "handed-back": "returned"}.get(how, how)
                assert entry.get("reason") == reason, (task, entry)
                assert not text or entry["stderr"] == text, (task, entry)

    def _recorded_attempts(self, task: Task) -> list[tuple[int, dict[str, Any]]]:
        entries = [
            (each["attempt"], each) for each in attempts.list_attempts(self.mill, *self._place(task.id))
        ]
        numbers = [number for number, _ in entries]
        assert numbers == sorted(set(numbers)), f"an attempt of {task} is listed twice"
        assert set(numbers) <= set(task.ends), task
        assert {each.get("reason") for _, each in entries} <= {None, "returned", *REASONS}
        return entries


@pytest.mark.timeout(3600)
def test_leases_reports_and_retries_match_the_model(cloud: Cloud) -> None:
    clock = ManualClock()
    with (
        queue_clock(clock),
        Faults(rules=False) as faults,
        stale_reads(faults.add_rule, clock=clock) as stale,
    ):
        faults.add_rule(Receipts().around)

        def machine() -> LeaseMachine:
            faults.calls.clear()
            return LeaseMachine(cloud, clock, stale)

        run_state_machine_as_test(
            machine,
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


def lease_one_task(cloud: Cloud) -> tuple[JobRunner, Lease]:
    runner = JobRunner(cloud)
    runner.define({"stepName": "a"}, failedRetries=1, failedInterval=0)
    runner.submit()
    [held] = runner.take(1)
    return runner, held


def test_a_result_that_is_twice_in_a_report_counts_once(cloud: Cloud) -> None:
    runner, held = lease_one_task(cloud)
    assert [item.status for item in runner.worker.report([held, held])] == ["ok", "already"]
    assert runner.worker.row.completed == 1


@pytest.mark.parametrize("reason", ["exit code 3", "timed-out"])
def test_a_late_repeated_report_does_not_change_an_attempt(cloud: Cloud, reason: str) -> None:
    """The response to a report was lost; when the report is repeated, another attempt has begun."""
    runner, held = lease_one_task(cloud)
    result = {"reason": reason, "stderr": "boom", "exitCode": 3, "endTime": datetime.now(UTC)}
    runner.worker.report([held], "failed", **result)
    runner.take(1)
    before = runner.task("a", 0)["attempts"]
    runner.worker.report([held], "failed", **result)
    assert runner.task("a", 0)["attempts"] == before


def test_a_task_that_a_worker_passes_on_is_not_counted_as_lost_again(cloud: Cloud) -> None:
    """The task was lost once; a worker that failed it receives it together with a new task."""
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
