"""Run a Job, its workers, state machines and users in one thread and under one clock.

A script lists the actions, their times, and the actions that interrupt them between two AWS calls. Table and
queues are moto's; the state machines are the real ones (`support.moto.step_functions`); each process has its
own caches.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

from moto.dynamodb.models import dynamodb_backends
from moto.sqs import models as moto_sqs

from shardmill.aws import clients
from shardmill.aws.bus import Bus
from shardmill.aws.machines import Machines
from shardmill.aws.queues import Ticket
from shardmill.aws.settings import Settings
from shardmill.engine import definitions
from shardmill.engine.control import change, delete, force, rerun, suspend
from shardmill.engine.errors import Conflict, MillError, NotFound
from shardmill.engine.groups import groups
from shardmill.engine.jobs.submit import submit
from shardmill.engine.mill import GROUP_CACHE_MS, STEP_CACHE_MS, WORKER_CACHE_MS, Mill, TtlCache
from shardmill.engine.orchestrate import act
from shardmill.engine.repair import end_failed_execution
from shardmill.engine.running import kill
from shardmill.engine.running.close_step import StepLost, StillOpen
from shardmill.engine.task_id import parse_task_id
from shardmill.engine.tick import tick
from shardmill.engine.views import jobs, tasks
from shardmill.model.actor import Actor
from shardmill.model.states import JobState, StepState, TaskState
from shardmill.model.worker import GroupRequest, Lease
from shardmill.store import keys
from shardmill.store.codec import decode_item
from shardmill.store.rows import JobRow, StepRow
from shardmill.store.table import RowGone
from support.aws_rules.call import ProcessKilled
from support.aws_rules.faults import Faults
from support.aws_rules.queues import Receipts
from support.moto.cloud import Cloud
from support.moto.stack import ACCOUNT, REGION
from support.moto.step_functions import Execution, SteppedStateMachines
from support.paths import PROJECT
from support.scenarios.interrupter import Interrupter, Interruption, Moment
from support.scenarios.manual_worker import ManualWorker

BEGIN = 1_800_000_000_000
LEASE_SECONDS = 60
GROUP = "races"
JOB, TRIGGER = "race", "t1"
ME = Actor("me")
ID = "00000000-0000-7000-8000-000000000001"
STATE_WORDS = {state.value for kind in (JobState, StepState, TaskState) for state in kind}
_NOTHING = ("", "[]", "set()", "0", "1", "none")
_UNHAPPY = ("FAILED", "ABORTED")

Deed = tuple[str, int, int]
"""Name of the action, its actor or target, and an amount or index; numbers wrap around."""


@dataclass(frozen=True)
class Between:
    """An action that interrupts another at its nth AWS call."""

    moment: Moment
    nth: int
    deed: Deed = ("machines", 0, 0)


@dataclass(frozen=True)
class Event:
    later: int
    deed: Deed
    between: Between | None = None
    again: bool = False


class Clock:
    def __init__(self) -> None:
        self.ms = BEGIN

    def __call__(self) -> int:
        return self.ms


class NoBus:
    """An EventBridge client that only counts as a call."""

    def __init__(self, through: Callable[[Callable[[], Any]], Any]) -> None:
        self._through = through

    def put_events(self, **_: Any) -> dict[str, Any]:
        return self._through(lambda: {"FailedEntryCount": 0})  # type: ignore[no-any-return]


@dataclass
class RaceWorker:
    """A worker process and the leases that it believes to hold."""

    name: str
    manual: ManualWorker
    held: dict[tuple[str, int], Lease] = field(default_factory=dict)


@dataclass
class Race:
    cloud: Cloud
    clock: Clock
    interrupter: Interrupter
    crew: int = 2
    workers: list[RaceWorker] = field(default_factory=list)
    past: list[tuple[str, Lease]] = field(default_factory=list)
    granted: set[tuple[str, int, int]] = field(default_factory=set)
    acknowledged: set[tuple[str, str, int, int]] = field(default_factory=set)
    """Kills acknowledged, by worker, Job, run and step."""
    settled: set[str] = field(default_factory=set)
    log: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clock.ms = BEGIN
        self._table().items.clear()
        settings = Settings.from_environment()
        self.machines_by_step = SteppedStateMachines(
            PROJECT / "statemachine",
            self._orchestrate,
            lambda **asked: clients.dynamodb().update_item(**asked),
            settings.table,
            self.interrupter.through,
        )
        machines = Machines(self.machines_by_step, settings.job_machine, settings.step_machine)  # type: ignore[arg-type]
        bus = Bus(NoBus(self.interrupter.through), settings.bus)  # type: ignore[arg-type]
        self._mill = replace(Mill.connect(settings), machines=machines, bus=bus)
        self.mill = self.process()
        self.machine_mill = self.process()
        request = GroupRequest(kind="pull", lease_seconds=LEASE_SECONDS)
        self.group, _ = groups.save(self.mill, GROUP, request, self.clock())

    def process(self) -> Mill:
        """A mill with the caches of a separate process."""
        return replace(
            self._mill,
            recent_steps=TtlCache(STEP_CACHE_MS),
            recent_groups=TtlCache(GROUP_CACHE_MS),
            recent_workers=TtlCache(WORKER_CACHE_MS),
        )

    def begin(self, document: dict[str, Any]) -> None:
        define = {"workerGroups": [GROUP], **document}
        definitions.save(self.mill, JOB, define, ME, now=self.clock())
        request = {"jobName": JOB, "trigger": TRIGGER}
        submit(self.mill, request, ME, now=self.clock(), new_id=lambda: ID)
        for number in range(self.crew):
            self.workers.append(self._join(f"w{number}"))

    def _join(self, name: str) -> RaceWorker:
        manual = ManualWorker(self.process(), name, [GROUP])
        manual.clock = self.clock
        return RaceWorker(name, manual)

    def close(self) -> None:
        self.mill.queues.remove(self.group.queues)

    # what happens

    def happen(self, event: Event) -> str:
        """Run an event; return its result."""
        self.clock.ms += event.later * 1000 + 1
        interruption = None
        if event.between:
            between = event.between

            def meanwhile() -> None:
                self.clock.ms += 1
                self.interrupter.act(lambda: self.do(between.deed))

            interruption = Interruption(between.moment, between.nth, meanwhile)
        return self.interrupter.act(lambda: self.do(event.deed), interruption)

    def do(self, deed: Deed) -> str:
        what, who, which = deed
        at = len(self.log)
        self.log.append("")
        try:
            told = str(getattr(self, f"do_{what}")(who, which))
        except ProcessKilled:
            told = "crashed"
        except RowGone:
            told = "refused: DELETED"
            if self.job():
                raise
        except (Conflict, NotFound) as refused:
            told = f"refused: {refused}"
            if isinstance(refused, Conflict) and STATE_WORDS.isdisjoint(re.findall(r"\w+", told)):
                raise AssertionError(f"{deed}: {refused!r} names no state") from refused
        except MillError as error:
            raise AssertionError(f"{deed}: {error!r} is no refusal that names a state") from error
        self.log[at] = f"{self.clock.ms - BEGIN:>8} {deed} {told}" if told not in _NOTHING else ""
        return told

    # workers

    def _worker(self, who: int) -> RaceWorker:
        return self.workers[who % len(self.workers)]

    @contextmanager
    def _restarted_if_killed(self, worker: RaceWorker) -> Iterator[None]:
        """Replace a worker whose process ends by another with the same name."""
        try:
            yield
        except ProcessKilled:
            self._restart(worker)
            raise

    def _restart(self, worker: RaceWorker) -> None:
        worker.held.clear()
        worker.manual = self.interrupter.act(lambda: self._join(worker.name)).manual

    def do_lease(self, who: int, which: int) -> str:
        worker = self._worker(who)
        known = set(self.acknowledged)
        with self._restarted_if_killed(worker):
            leases = worker.manual.take(min(which + 1, 10))
        for lease in leases:
            key = _key(lease)
            grant = (lease.task_id, lease.run, lease.attempt)
            assert grant not in self.granted, f"attempt {grant} was leased twice"
            self.granted.add(grant)
            assert (worker.name, *key) not in known, (
                f"{worker.name} leased {grant} after it heard of the kill"
            )
            worker.held[lease.task_id, lease.attempt] = lease
            self.past.append((worker.name, lease))
        return f"{[(lease.task_id[-3:], lease.attempt) for lease in leases]}"

    def do_success(self, who: int, which: int) -> str:
        return self._report(who, which, "success")

    def do_fail(self, who: int, which: int) -> str:
        return self._report(who, which, "failed")

    def do_fail_for_good(self, who: int, which: int) -> str:
        return self._report(who, which, "failed-permanent")

    def _report(self, who: int, which: int, outcome: str) -> str:
        """Report one held task, or all if `which` is 0."""
        worker = self._worker(who)
        held = list(worker.held.values())
        leases = held if not which else held[which % len(held) :][:1] if held else []
        return self._tell(worker, leases, outcome)

    def _tell(self, worker: RaceWorker, leases: list[Lease], outcome: str, **more: Any) -> str:
        with self._restarted_if_killed(worker):
            told = worker.manual.report(leases, outcome, **more)
        for lease in leases:
            worker.held.pop((lease.task_id, lease.attempt), None)
        return f"{[(each.task_id[-3:], each.attempt, each.status, each.state) for each in told]}"

    def do_late(self, who: int, which: int) -> str:
        """Report an attempt that this worker, or an earlier one of its name, once held."""
        if not self.past:
            return "none"
        name, lease = self.past[-1 - which % len(self.past)]
        [worker] = [worker for worker in self.workers if worker.name == name]
        return self._tell(worker, [lease], "failed" if who % 2 else "success")

    def do_beat(self, who: int, which: int) -> str:
        """Send a heartbeat; stop dropped tasks at once, and report that unless `which` is odd."""
        worker = self._worker(who)
        leases = list(worker.held.values())
        with self._restarted_if_killed(worker):
            drop = set(worker.manual.beat(leases))
        dropped = [lease for lease in leases if lease.task_id in drop]
        for lease in dropped:
            worker.held.pop((lease.task_id, lease.attempt), None)
            if self._is_killed(_key(lease)):
                self.acknowledged.add((worker.name, *_key(lease)))
        if dropped and not which % 2:
            return f"{drop} {self._tell(worker, dropped, 'failed', reason='discarded')}"
        return f"{drop}"

    def _is_killed(self, key: tuple[str, int, int]) -> bool:
        job, step = self.job(), self.steps().get(key[1:])
        if not job or not step:
            return True
        return (job.run == key[1] and job.state is JobState.KILLED) or step.kill or step.state.ended

    def do_vanish(self, who: int, which: int) -> str:
        self._restart(self._worker(who))
        return ""

    # what runs by itself

    def _orchestrate(self, event: dict[str, Any]) -> Any:
        try:
            return act(self.machine_mill, event, self.clock())
        except (StillOpen, StepLost, ProcessKilled):
            raise
        except Exception as error:
            if not self.job():
                raise
            raise AssertionError(f"a state machine met {error!r} in {event}") from error

    def do_machine(self, who: int, which: int) -> str:
        """Run one state of one execution."""
        runnable = self.machines_by_step.runnable()
        if not runnable:
            return "none"
        execution = runnable[who % len(runnable)]
        return self._step(execution)

    def _step(self, execution: Execution) -> str:
        before = execution.state
        self.machines_by_step.step(execution)
        return f"{execution.name[37:]} {before} -> {execution.state} {execution.status}"

    def do_machines(self, who: int, which: int) -> str:
        """Run every execution as far as possible."""
        told: list[str] = []
        for _ in range(400):
            runnable = self.machines_by_step.runnable()
            if not runnable:
                return " ".join(told)
            told.append(self._step(runnable[0]))
        raise AssertionError(f"the state machines go round in circles: {told[-6:]}")

    def do_tick(self, who: int, which: int) -> str:
        told = tick(self.process(), self.clock(), lambda: ID.replace("1", "2"))
        assert not told["failed"] or not self.job(), "a tick could not mend a Job"
        return f"{told['looked']}"

    def do_settle(self, who: int, which: int) -> str:
        """Deliver the events of failed executions."""
        told = []
        for execution in list(self.machines_by_step.executions.values()):
            if execution.status in _UNHAPPY and execution.arn not in self.settled:
                end_failed_execution(self.process(), execution.name, f"it {execution.status}", self.clock())
                self.settled.add(execution.arn)
                told.append(execution.name[37:])
        return " ".join(told)

    # what people do

    def _job(self) -> JobRow:
        return jobs.read_job(self.mill, JOB, TRIGGER)

    def _step_of(self, job: JobRow, which: int) -> StepRow:
        names = [step.name for step in self.nodes()]
        return jobs.read_step(self.mill, job, names[which % len(names)] if names else "none")[0]

    def do_suspend(self, who: int, which: int) -> str:
        job = suspend.suspend(self.mill, self._job(), ME, "", self.clock(), let_finish=bool(which % 2))
        return job.state

    def do_resume(self, who: int, which: int) -> str:
        return suspend.resume(self.mill, self._job(), ME, "", self.clock()).state

    def do_kill(self, who: int, which: int) -> str:
        return kill.kill(self.mill, self._job(), ME.name, "", self.clock()).state

    def do_kill_step(self, who: int, which: int) -> str:
        job = self._job()
        step = self._step_of(job, who)
        kill.kill_step(self.mill, job, step, ME.name, "", self.clock())
        return step.name

    def do_kill_task(self, who: int, which: int) -> str:
        job = self._job()
        step = self._step_of(job, who)
        rank = tasks.rank_of(step, which % max(1, step.total))
        kill.kill_task(self.mill, job, step, rank, ME.name, "", self.clock())
        return f"{step.name} {rank}"

    def do_force(self, who: int, which: int) -> str:
        state = (JobState.SUCCESS, JobState.FAILED)[which % 2]
        return force.force_job(self.mill, self._job(), state, ME, "", self.clock()).state

    def do_force_step(self, who: int, which: int) -> str:
        job = self._job()
        step = self._step_of(job, who)
        state = (StepState.SUCCESS, StepState.FAILED)[which % 2]
        force.force_step(self.mill, job, step, state, ME, "", self.clock())
        return f"{step.name} {state}"

    def do_force_task(self, who: int, which: int) -> str:
        job = self._job()
        step = self._step_of(job, who)
        rank = tasks.rank_of(step, which // 2 % max(1, step.total))
        state = (TaskState.SUCCESS, TaskState.FAILED)[which % 2]
        force.force_task(self.mill, job, step, rank, state, ME, "", self.clock())
        return f"{step.name} {rank} {state}"

    def do_rerun(self, who: int, which: int) -> str:
        """What failed, everything, a step, tasks of a step, or a step and what is downstream of it."""
        job = self._job()
        scope = rerun.Scope()
        if which % 5 == 1:
            scope = rerun.Scope(everything=True)
        elif which % 5 > 1:
            step = self._step_of(job, who)
            ranks = (tasks.rank_of(step, 0),) if which % 5 == 3 else ()
            scope = rerun.Scope(steps=(step.name,), ranks=ranks, downstream=which % 5 == 4)
        again = rerun.rerun(self.mill, job, scope, ME, "", self.clock())
        return f"run {again.run}"

    def do_priority(self, who: int, which: int) -> str:
        priority = (1, 20, -5, 2)[which % 4]
        change.change(self.mill, self._job(), {"priority": priority}, ME, self.clock())
        return f"{priority}"

    def do_delete(self, who: int, which: int) -> str:
        delete.delete(self.mill, self._job(), ME.name, self.clock(), full=bool(which % 2))
        return ""

    # what there is; looking into moto is much quicker than asking it

    def _table(self) -> Any:
        """Looked up each time: moto replaces the table when it cancels a transaction."""
        return dynamodb_backends[ACCOUNT][REGION].get_table(self.cloud.table)

    def rows(self) -> dict[tuple[str, str], dict[str, Any]]:
        return {
            (row["pk"], row["sk"]): row
            for partition in self._table().items.values()
            for item in partition.values()
            for row in [decode_item(item.to_json()["Attributes"])]
        }

    def job(self) -> JobRow | None:
        row = self.rows().get((f"JOB#{ID}", "job"))
        return JobRow.from_item(row) if row else None

    def steps(self) -> dict[tuple[int, int], StepRow]:
        """By run and index, without gates."""
        found = [
            StepRow.from_item(row)
            for (pk, sk), row in self.rows().items()
            if pk == f"JOB#{ID}" and sk != "job"
        ]
        return {(step.run, step.index): step for step in found if step.kind == "step"}

    def nodes(self) -> list[StepRow]:
        """The steps of the present run."""
        job = self.job()
        return [step for (run, _), step in sorted(self.steps().items()) if job and run == job.run]

    def messages(self) -> list[Ticket]:
        found = []
        for url in self.group.queues:
            queue = moto_sqs.sqs_backends[ACCOUNT][REGION].queues[url.rsplit("/", 1)[1]]
            found += [ticket for each in queue._messages if (ticket := Ticket.decode(each.body))]
        return found

    # the end

    def quiet(self) -> None:
        """Run machines, ticks and workers until nothing changes; resume what was suspended."""
        before: object = None
        for _ in range(30):
            self.clock.ms += (LEASE_SECONDS + 2) * 1000
            self.do(("machines", 0, 0))
            for who in range(len(self.workers)):
                self.do(("beat", who, 0))
                self.do(("success", who, 0))
                self._work_off(who)
            self.do(("machines", 0, 0))
            self.do(("settle", 0, 0))
            self.do(("tick", 0, 0))
            job = self.job()
            if job and job.state is JobState.SUSPENDED and job.parked:
                self.do(("resume", 0, 0))
            now = (self.standing(), self.messages())
            if now == before and self._rests():
                return
            before = now
        job, steps = self.job(), [(step.name, step.state, step.waiting) for step in self.nodes()]
        raise AssertionError(f"does not come to rest: {job}, {steps}, {self.messages()}")

    def _work_off(self, who: int) -> None:
        """Lease and succeed until no message is visible; void messages may precede others."""
        left = -1
        while self.do(("lease", who, 9)) != "[]" or len(self.messages()) != left:
            left = len(self.messages())
            self.do(("success", who, 0))

    def _rests(self) -> bool:
        job = self.job()
        if not job:
            return True
        over = job.state.ended or (job.state is JobState.SUSPENDED and not job.parked)
        return over and not job.event_pending and not job.heirs_pending

    def standing(self) -> dict[tuple[str, str], dict[str, Any]]:
        """The rows of the Job without attributes that reads change."""
        moving = ("update_time", "da", "dk")
        return {
            key: {name: value for name, value in row.items() if name not in moving}
            for key, row in self.rows().items()
            if ID in key[0]
        }


def _key(lease: Lease) -> tuple[str, int, int]:
    place = parse_task_id(lease.task_id)
    assert place is not None
    return place[0], lease.run, place[1]


def block_key(step: StepRow, number: int) -> tuple[str, str]:
    key = keys.block(step.job_id, step.run, step.index, number)
    return key["pk"], key["sk"]


@contextmanager
def clock_of_queues(clock: Clock) -> Iterator[None]:
    with (
        patch.object(moto_sqs, "unix_time_millis", lambda: float(clock())),
        patch.object(moto_sqs, "unix_time", lambda: clock() / 1000),
    ):
        yield


@contextmanager
def race_track(cloud: Cloud) -> Iterator[Callable[[dict[str, Any]], Race]]:
    """Run races one after the other; return a function that starts one with a definition."""
    clock, interrupter = Clock(), Interrupter()
    with clock_of_queues(clock), Faults(rules=False) as faults:
        faults.add_rule(Receipts().around)
        faults.add_rule(interrupter.around)

        def begin(document: dict[str, Any]) -> Race:
            faults.calls.clear()
            race = Race(cloud, clock, interrupter)
            race.begin(document)
            return race

        yield begin
