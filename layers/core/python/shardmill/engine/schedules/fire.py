"""Fire schedules: one transaction advances the schedule and writes the Job, so each time fires once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from shardmill.engine.access.errors import LimitReached
from shardmill.engine.access.limits import create_job
from shardmill.engine.conflict import Attempts
from shardmill.engine.errors import DefinitionNotFound, MillError, Overlap
from shardmill.engine.jobs.dependencies import START_GRACE_MS, start_job
from shardmill.engine.jobs.submit import BatchReads, Origin, build_job, check, find_existing
from shardmill.engine.mill import AHEAD_MS, Mill
from shardmill.engine.schedules import catch_up, fixed_delay, manage
from shardmill.engine.schedules.catch_up import Visit
from shardmill.engine.schedules.outcomes import Entry, no_job, publish_skipped, skipped_entry, skips
from shardmill.engine.schedules.overlap import previous_job, turn_of
from shardmill.engine.schedules.request import request_of
from shardmill.model.actor import Actor
from shardmill.model.fault import fault
from shardmill.model.templates.render import TemplateError
from shardmill.model.time.schedule import FireRequest, Schedule
from shardmill.model.timestamps import from_ms, to_ms
from shardmill.store.definitions import Definition
from shardmill.store.jobs import ExtraWriteFailed
from shardmill.store.rows import JobRow, ScheduleRow

MAX_TIMES_PER_VISIT = 20  # of one schedule; another visit continues
MAX_HISTORY = 100
MAX_HISTORY_BYTES = 60_000
_TRIES = 6

NewId = Callable[[], str]


@dataclass(frozen=True, slots=True)
class Progress:
    """The Jobs that a visit to a schedule started, the times it decided on, and when to continue it.

    `coming`: the next time, if the visit is done and the time comes before a tick surely has seen it.
    """

    started: int = 0
    times: int = 0
    again: int | None = None
    coming: int | None = None


@dataclass(slots=True)
class FireBatch:
    """State that the firings of one batch share: definitions are read once, jids are reserved together.

    `lag`: the longest time from a scheduled time to the start of its Job, in milliseconds.
    """

    mill: Mill
    new_id: NewId
    reserve: int = 1  # how many jids to reserve at a time
    clock: Callable[[], int] = int
    lag: int = 0
    reads: BatchReads = field(default_factory=BatchReads)
    numbers: Iterator[int] = field(default_factory=lambda: iter(()))

    def definition(self, job_name: str) -> Definition:
        found = self._find(job_name)
        if not found:
            raise DefinitionNotFound(job_name)
        return found

    def suspended(self, job_name: str) -> bool:
        found = self._find(job_name)
        return found is not None and bool(found.suspended)

    def resumed(self, job_name: str) -> int:
        found = self._find(job_name)
        return found.resumed if found else 0

    def _find(self, job_name: str) -> Definition | None:
        return self.reads.definition(self.mill, job_name)

    def jid(self) -> int:
        number = next(self.numbers, None)
        if number is None:
            first = self.mill.job_numbers.reserve(self.reserve)
            self.numbers = iter(range(first + 1, first + self.reserve))
            return first
        return number


def fire_schedule(batch: FireBatch, row: ScheduleRow, visit: Visit) -> Progress:
    """Process the due times of a schedule in order, at most MAX_TIMES_PER_VISIT of them."""
    schedule, started = manage.schedule_of(row), 0
    if batch.suspended(row.job_name):
        return Progress()  # its times stay due; catchUp applies when the definition is resumed
    if row.next is not None and visit.leaves(row.next):
        return Progress()
    visit = visit.since(row.on_since, batch.resumed(row.job_name))
    moved: ScheduleRow | None
    for times in range(MAX_TIMES_PER_VISIT):
        if not _is_due(row, visit.now):
            # A visit that decided on nothing was a repetition: the other one continues.
            soon = times and _is_due(row, visit.now + AHEAD_MS)
            return Progress(started, times, coming=row.next if soon else None)
        now = visit.recorded(batch.clock())
        decision = _decide(schedule, row, visit)
        entries = [skipped_entry(decision, now)] if decision.skipped else []
        if row.awaits:
            moved = fixed_delay.renew(batch.mill, row, now)
        elif decision.fire is None:
            moved = _advance(batch.mill, row, decision.next, entries)
        else:
            alive = previous_job(batch.mill, schedule, row)
            turn = turn_of(schedule, decision.fire, alive)
            if turn > visit.now:
                return Progress(started, times, turn if turn < visit.until else None)
            moved, new = _start(batch, schedule, row, decision, entries, now, alive)
            started += new
        if not moved:
            return Progress(started, times)  # another process fires it
        row = moved
    return Progress(started, MAX_TIMES_PER_VISIT, visit.now if _is_due(row, visit.now) else None)


def _decide(schedule: Schedule, row: ScheduleRow, visit: Visit) -> catch_up.Decision:
    assert row.next is not None
    if schedule.delay_seconds is not None:
        return fixed_delay.decide(schedule, row.next, row.fired)
    return catch_up.decide(schedule, row.next, visit)


def _is_due(row: ScheduleRow, now: int) -> bool:
    return row.status == 1 and row.next is not None and row.next <= now


def fire_now(
    mill: Mill, row: ScheduleRow, request: FireRequest, actor: Actor, now: int, new_id: NewId
) -> tuple[JobRow, bool]:
    """Start a Job of a schedule on request; return it and whether it is new. The next time stays."""
    time = now // 1000 * 1000 if request.data_time is None else to_ms(request.data_time)
    batch = FireBatch(mill, new_id)
    attempts = Attempts(f"the schedule {row.id!r} of {row.job_name!r}")
    while True:
        attempts.begin()
        schedule = manage.schedule_of(row)
        document = _manual_request(schedule, time, request)
        existing = find_existing(mill, check(document), actor)
        if existing:
            return existing, False
        alive = previous_job(mill, schedule, row)
        if alive and schedule.overlap == "skip":
            raise Overlap(
                f"the previous Job {alive.job_name}/{alive.trigger} is still {alive.state}, and the schedule "
                "has `overlap: skip`; wait for it to end, or submit a Job without the schedule"
            )
        job = build_scheduled_job(batch, row, document, actor, now, previous=alive)
        entry = {
            "time": time,
            "trigger": job.trigger,
            "firedTime": now,
            "outcome": "started",
            "jobId": job.id,
        }
        done = _advanced(row, row.next, [entry], job)
        try:
            writes = _schedule_writes(mill, row, done, [])
            if create_job(mill, job, due=now + START_GRACE_MS, also=writes, actor=actor):
                start_job(mill, job, now)
                return job, True
        except ExtraWriteFailed:
            row = manage.read(mill, row.job_name, row.id)


def _start(
    batch: FireBatch,
    schedule: Schedule,
    row: ScheduleRow,
    decision: catch_up.Decision,
    entries: list[Entry],
    now: int,
    alive: JobRow | None,
) -> tuple[ScheduleRow | None, bool]:
    assert decision.fire is not None
    mill, time = batch.mill, decision.fire
    trigger = schedule.trigger(from_ms(time))
    entry: Entry = {"time": time, "trigger": trigger, "firedTime": now}
    if alive and schedule.overlap == "skip":
        entry |= no_job("skipped", f"the previous Job {alive.trigger} is still {alive.state}")
        return _advance(mill, row, decision.next, [*entries, entry]), False
    try:
        actor, request = Actor(row.update_user), request_of(schedule, time)
        job = build_scheduled_job(batch, row, request, actor, now, previous=alive, on_time=True)
    except (MillError, TemplateError) as error:
        entry |= no_job("refused", str(error))
        return _advance(mill, row, decision.next, [*entries, entry]), False
    for _ in range(_TRIES):
        history = [*entries, entry | {"outcome": "started", "jobId": job.id}]
        done = _advanced(row, decision.next, history, job)
        if job.renews:
            done = fixed_delay.awaiting(done, job, now)
        try:
            writes = _schedule_writes(mill, row, done, entries)
            if create_job(mill, job, due=now + START_GRACE_MS, also=writes):
                publish_skipped(mill, row, entries)
                start_job(mill, job, now)
                batch.lag = max(batch.lag, batch.clock() - time)
                return done.evolve(rev=row.rev + 1), True
        except ExtraWriteFailed:
            return None, False
        except LimitReached as error:
            entry |= no_job("refused", str(error))
            return _advance(mill, row, decision.next, [*entries, entry]), False
        taken = mill.jobs.find(row.job_name, trigger)
        if taken:
            exists = no_job("exists", "a Job with this trigger already exists") | {"jobId": taken.id}
            exists["same"] = taken.moment == time
            return _advance(mill, row, decision.next, [*entries, entry | exists]), False
    return None, False


def build_scheduled_job(
    batch: FireBatch,
    row: ScheduleRow,
    request: dict[str, Any],
    actor: Actor,
    now: int,
    *,
    previous: JobRow | None = None,
    backfill: int = 0,
    on_time: bool = False,
) -> JobRow:
    """Return the Job of a schedule without writing it.

    `previous`: the schedule's previous Job, if it has not ended. `on_time`: the time has just come, it is not
    requested by a user.
    """
    schedule = manage.schedule_of(row)
    origin = Origin(
        schedule_id=row.id,
        timezone=schedule.timezone,
        after=previous.id if previous and schedule.overlap == "queue" else "",
        replaces=previous.id if previous and schedule.overlap == "replace" else "",
        backfill=backfill,
        on_time=on_time,
    )
    saved = batch.definition(row.job_name)
    job, _ = build_job(
        batch.mill,
        request,
        saved,
        actor,
        now=now,
        job_id=batch.new_id(),
        origin=origin,
        reads=batch.reads,
    )
    return job.evolve(jid=batch.jid(), renews=on_time and schedule.delay_seconds is not None)


def _manual_request(schedule: Schedule, time: int, request: FireRequest) -> dict[str, Any]:
    try:
        return request_of(schedule, time, request.params)
    except TemplateError as error:
        wrong = fault(("params",), "bad-template", str(error))
        raise manage.invalid("the Job cannot be started", [wrong]) from error
    except (OverflowError, ValueError) as error:
        text = f"cannot be represented in the time zone {schedule.timezone}: {error}"
        wrong = fault(("dataTime",), "bad-time", text)
        raise manage.invalid("the Job cannot be started", [wrong]) from error


def _advance(
    mill: Mill, row: ScheduleRow, upcoming: int | None, entries: Sequence[Entry]
) -> ScheduleRow | None:
    """Advance a schedule without a Job; None if another process did."""
    moved = mill.schedules.change(row, _advanced(row, upcoming, entries), skipped=skips(entries))
    if moved:
        publish_skipped(mill, row, entries)
    return moved


def _schedule_writes(
    mill: Mill, row: ScheduleRow, done: ScheduleRow, entries: Sequence[Entry]
) -> list[dict[str, Any]]:
    """Return the writes that go with a Job; the schedule's row is last, because its condition decides."""
    return mill.schedules.change_requests(row, done, skipped=skips(entries))


def _advanced(
    row: ScheduleRow, upcoming: int | None, entries: Iterable[Entry], job: JobRow | None = None
) -> ScheduleRow:
    history = [*reversed(list(entries)), *row.history][:MAX_HISTORY]
    while len(json.dumps(history)) > MAX_HISTORY_BYTES:
        history.pop()
    return row.evolve(next=upcoming, history=history, last_job=job.id if job else row.last_job)
