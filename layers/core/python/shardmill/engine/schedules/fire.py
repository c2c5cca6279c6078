"""Firing schedules: each time once, in one transaction that moves the schedule on and writes the Job."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from shardmill.engine.conflict import Attempts
from shardmill.engine.errors import DefinitionNotFound, MillError, Overlap
from shardmill.engine.jobs.dependencies import START_GRACE_MS, start_job
from shardmill.engine.jobs.effective import Bound, bound_to
from shardmill.engine.jobs.submit import Origin, check, find_existing, make
from shardmill.engine.mill import Mill
from shardmill.engine.running.finish import SCHEMA_VERSION
from shardmill.engine.schedules import catch_up, manage
from shardmill.model.actor import Actor
from shardmill.model.base import from_ms, to_ms
from shardmill.model.fault import fault
from shardmill.model.time.schedule import FireRequest, Schedule
from shardmill.store.definitions import Definition
from shardmill.store.jobs import ExtraWriteFailed
from shardmill.store.rows import JobRow, ScheduleRow
from shardmill.store.schedules import Skip

MOST_TIMES = 20  # that one schedule catches up on in one visit
MOST_HISTORY = 100
MOST_HISTORY_BYTES = 60_000
NOT_STARTED = ("skipped", "missed", "late", "refused", "exists")
SCHEDULE_SKIPPED = "Schedule Skipped"
_TRIES = 6

NewId = Callable[[], str]
Entry = dict[str, Any]


@dataclass(slots=True)
class Stock:
    """What the firings of one batch share: definitions are read once, and numbers taken by the dozen."""

    mill: Mill
    new_id: NewId
    reserve: int = 1  # how many numbers are taken at a time
    definitions: dict[str, Definition | None] = field(default_factory=dict)
    bound: Bound | None = None
    numbers: Iterator[int] = field(default_factory=lambda: iter(()))

    def definition(self, job_name: str) -> Definition:
        if job_name not in self.definitions:
            self.definitions[job_name] = self.mill.definitions.find(job_name)
        found = self.definitions[job_name]
        if not found:
            raise DefinitionNotFound(job_name)
        return found

    def suspended(self, job_name: str) -> bool:
        if job_name not in self.definitions:
            self.definitions[job_name] = self.mill.definitions.find(job_name)
        found = self.definitions[job_name]
        return found is not None and bool(found.suspended)

    def jid(self) -> int:
        number = next(self.numbers, None)
        if number is None:
            first = self.mill.jobs.next_jid(self.reserve)
            self.numbers = iter(range(first + 1, first + self.reserve))
            return first
        return number


def fire_schedule(stock: Stock, row: ScheduleRow, now: int) -> int:
    """Decide on the times of a schedule that have come, one after the other; how many Jobs were started."""
    schedule = manage.schedule_of(row)
    started = 0
    if stock.suspended(row.job_name):
        return 0  # its times wait, and are then dealt with as its catchUp says
    for _ in range(MOST_TIMES):
        if row.status != 1 or row.next is None or row.next > now:
            break
        decision = catch_up.decide(schedule, row.next, now)
        entries = []
        if decision.given_up:
            entries.append(_given_up(decision, now))
        moved: ScheduleRow | None
        if decision.fire is None:
            moved = _move(stock.mill, row, decision.next, entries)
        else:
            moved, new = _start(stock, schedule, row, decision, entries, now)
            started += new
        if not moved:
            break  # somebody else fires it
        row = moved
    return started


def _start(
    stock: Stock,
    schedule: Schedule,
    row: ScheduleRow,
    decision: catch_up.Decision,
    entries: list[Entry],
    now: int,
) -> tuple[ScheduleRow | None, bool]:
    assert decision.fire is not None
    mill, time = stock.mill, decision.fire
    trigger = schedule.trigger(from_ms(time))
    entry: Entry = {"time": time, "trigger": trigger, "firedTime": now}
    alive = _previous(mill, schedule, row)
    if alive and schedule.overlap == "skip":
        entry |= _no_job("skipped", f"the previous Job {alive.trigger} is still {alive.state}")
        return _move(mill, row, decision.next, [*entries, entry]), False
    try:
        actor, request = Actor(row.update_user), request_of(schedule, time)
        job = job_of(stock, row, request, actor, now, previous=alive, timely=True)
    except MillError as refused:
        entry |= _no_job("refused", str(refused))
        return _move(mill, row, decision.next, [*entries, entry]), False
    for _ in range(_TRIES):
        told = [*entries, entry | {"outcome": "started", "jobId": job.id}]
        done = _moved(row, decision.next, told, job)
        try:
            if mill.jobs.create(job, due=now + START_GRACE_MS, also=_also(mill, row, done, entries)):
                _tell(mill, row, entries)
                start_job(mill, job, now)
                return done.evolve(rev=row.rev + 1), True
        except ExtraWriteFailed:
            return None, False
        taken = mill.jobs.find(row.job_name, trigger)
        if taken:
            exists = _no_job("exists", "a Job with this trigger exists already") | {"jobId": taken.id}
            exists["same"] = taken.moment == time
            return _move(mill, row, decision.next, [*entries, entry | exists]), False
    return None, False


def job_of(
    stock: Stock,
    row: ScheduleRow,
    request: dict[str, Any],
    actor: Actor,
    now: int,
    *,
    previous: JobRow | None = None,
    backfill: int = 0,
    timely: bool = False,
) -> JobRow:
    """The Job that a schedule asks for, not written yet; `previous`: the one before, if it has not ended.

    `timely`: nobody asked for its time but the clock.
    """
    schedule = manage.schedule_of(row)
    origin = Origin(
        schedule_id=row.id,
        timezone=schedule.timezone,
        after=previous.id if previous and schedule.overlap == "queue" else "",
        replaces=previous.id if previous and schedule.overlap == "replace" else "",
        backfill=backfill,
        timely=timely,
    )
    saved = stock.definition(row.job_name)
    if stock.bound is None:
        stock.bound = bound_to(stock.mill)
    job = make(
        stock.mill,
        request,
        saved,
        actor,
        now=now,
        job_id=stock.new_id(),
        origin=origin,
        bound=stock.bound,
    )
    return job.evolve(jid=stock.jid())


def request_of(
    schedule: Schedule, time: int, params: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, Any]:
    """The JobRequest that a time of a schedule makes."""
    moment = from_ms(time)
    return {
        "jobName": schedule.job_name,
        "trigger": schedule.trigger(moment),
        "dataTime": moment.isoformat(),
        "params": {**schedule.params, **params},
    }


def _previous(mill: Mill, schedule: Schedule, row: ScheduleRow) -> JobRow | None:
    """The Job that the schedule started last, if it matters and has not ended."""
    if schedule.overlap == "allow" or not row.last_job:
        return None
    job = mill.jobs.get(row.last_job)
    return job if job and not job.state.ended else None


def _move(mill: Mill, row: ScheduleRow, upcoming: int | None, entries: Sequence[Entry]) -> ScheduleRow | None:
    """Move a schedule on without a Job; None if somebody else did."""
    moved = mill.schedules.change(row, _moved(row, upcoming, entries), skipped=_skips(entries))
    if moved:
        _tell(mill, row, entries)
    return moved


def _also(mill: Mill, row: ScheduleRow, done: ScheduleRow, entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """What is written with a Job; the schedule's own row last, because its condition decides."""
    return mill.schedules.change_requests(row, done, skipped=_skips(entries))


def _skips(entries: Sequence[Entry]) -> list[Skip]:
    """The times that no Job stands for; one that exists does, if it is of that very time."""
    left_out = [each for each in entries if each["outcome"] in NOT_STARTED and not each.get("same")]
    return [(each["time"], each["until"] if "until" in each else each["time"]) for each in left_out]


def _moved(
    row: ScheduleRow, upcoming: int | None, entries: Iterable[Entry], job: JobRow | None = None
) -> ScheduleRow:
    history = [*reversed(list(entries)), *row.history][:MOST_HISTORY]
    while len(json.dumps(history)) > MOST_HISTORY_BYTES:
        history.pop()
    return row.evolve(next=upcoming, history=history, last_job=job.id if job else row.last_job)


def _given_up(decision: catch_up.Decision, now: int) -> Entry:
    assert decision.given_up
    first, last = decision.given_up
    why = {
        "late": "later than maxLatenessSeconds allows",
        "missed": "no tick came in time, and catchUp does not ask for it",
    }
    times = {"time": first, "until": last} if last > first else {"time": first}
    return {**times, "firedTime": now, **_no_job(decision.outcome, why[decision.outcome])}


def _no_job(outcome: str, reason: str) -> Entry:
    return {"outcome": outcome, "reason": reason[:500]}


def _tell(mill: Mill, row: ScheduleRow, entries: Iterable[Entry]) -> None:
    """Tell the bus of times that started nothing; the history has them in any case."""
    for entry in entries:
        if entry["outcome"] in NOT_STARTED and entry["outcome"] != "exists":
            detail = {
                "schemaVersion": SCHEMA_VERSION,
                "jobName": row.job_name,
                "scheduleId": row.id,
                "time": from_ms(entry["time"]).isoformat(),
                "until": from_ms(entry["until"]).isoformat() if "until" in entry else None,
                "outcome": entry["outcome"],
                "reason": entry["reason"],
            }
            mill.bus.publish_best_effort(SCHEDULE_SKIPPED, detail)


def fire_now(
    mill: Mill, row: ScheduleRow, request: FireRequest, actor: Actor, now: int, new_id: NewId
) -> tuple[JobRow, bool]:
    """Start a Job of a schedule by hand; the Job, and whether it is new. Its next time stays as it is."""
    time = now // 1000 * 1000 if request.data_time is None else to_ms(request.data_time)
    stock = Stock(mill, new_id)
    attempts = Attempts(f"the schedule {row.id!r} of {row.job_name!r}")
    while True:
        attempts.begin()
        schedule = manage.schedule_of(row)
        document = _by_hand(schedule, time, request)
        existing = find_existing(mill, check(document))
        if existing:
            return existing, False
        alive = _previous(mill, schedule, row)
        if alive and schedule.overlap == "skip":
            raise Overlap(
                f"the previous Job {alive.job_name}/{alive.trigger} is still {alive.state}, and the schedule "
                "says to skip then; wait for it, or submit a Job by hand"
            )
        job = job_of(stock, row, document, actor, now, previous=alive)
        entry = {
            "time": time,
            "trigger": job.trigger,
            "firedTime": now,
            "outcome": "started",
            "jobId": job.id,
        }
        done = _moved(row, row.next, [entry], job)
        try:
            if mill.jobs.create(job, due=now + START_GRACE_MS, also=_also(mill, row, done, [])):
                start_job(mill, job, now)
                return job, True
        except ExtraWriteFailed:
            row = manage.read(mill, row.job_name, row.id)


def _by_hand(schedule: Schedule, time: int, request: FireRequest) -> dict[str, Any]:
    try:
        return request_of(schedule, time, request.params)
    except (OverflowError, ValueError) as error:
        text = f"cannot be told in the zone {schedule.timezone}: {error}"
        wrong = fault(("dataTime",), "bad-time", text)
        raise manage.invalid("the Job cannot be started", [wrong]) from error
