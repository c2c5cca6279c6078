"""Save, read and delete schedules, and list their upcoming times."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

from shardmill.engine.access.limits import limits_reported
from shardmill.engine.access.visible import bound_groups_of, check_groups
from shardmill.engine.conflict import Attempts
from shardmill.engine.errors import (
    DefinitionNotFound,
    PreconditionFailed,
    ScheduleInvalid,
    ScheduleNotFound,
    ScheduleTooLarge,
)
from shardmill.engine.jobs.release_waiting import release_waiting
from shardmill.engine.mill import Mill
from shardmill.engine.schedules import catch_up, fixed_delay
from shardmill.engine.schedules.hand_over import hand_over_resumed, hand_over_saved
from shardmill.engine.schedules.request import request_faults
from shardmill.model.access.grants import Work
from shardmill.model.actor import Actor
from shardmill.model.definition.fields import JobDefine
from shardmill.model.fault import Fault
from shardmill.model.time.meaning import describe_schedule
from shardmill.model.time.schedule import (
    Firing,
    SavedSchedule,
    Schedule,
    UpcomingTimes,
    When,
    check_schedule,
)
from shardmill.model.timestamps import from_ms
from shardmill.store.definitions import Definition, Expected
from shardmill.store.rows import ScheduleRow

MAX_BYTES = 64_000
_TRIES = 20
_WHEN = (
    *("cron", "everySeconds", "everyMonths", "delaySeconds", "at", "times"),
    *("timezone", "startDate", "endDate", "maxTimes"),
)


def save(
    mill: Mill,
    job_name: str,
    schedule_id: str,
    document: object,
    actor: Actor,
    *,
    now: int,
    expected: Expected = None,
) -> ScheduleRow:
    """Save a schedule; if its times do not change, its next time stays the same."""
    schedule, faults = check_schedule(document, job_name, schedule_id)
    if not schedule:
        raise invalid("the schedule is not valid", faults)
    definition = mill.definitions.find(job_name)
    if not definition:
        raise DefinitionNotFound(job_name)
    faults = request_faults(schedule, definition)
    if faults:
        raise invalid("the schedule is not valid", faults)
    application = definition.document.get("appName", "")
    check_job_groups(mill, schedule, definition, actor, "define")
    stored = schedule.model_dump(mode="json", exclude_defaults=True)
    if len(json.dumps(stored).encode()) > MAX_BYTES:
        raise ScheduleTooLarge(f"the schedule is larger than {MAX_BYTES} bytes; shorten its params")
    attempts = Attempts(_subject(job_name, schedule_id), _TRIES)
    while True:
        attempts.begin()
        known = mill.schedules.known(job_name, schedule_id)
        _check_expected(known, expected, job_name, schedule_id)
        wanted = _row(known, schedule, stored, actor, now)
        with limits_reported(mill, actor):
            saved = mill.schedules.save(known, wanted, application)
        if saved:
            if saved.on_since == now:
                hand_over_resumed(mill, [saved], now)
            else:
                hand_over_saved(mill, saved, now)
            if saved.status == 0:
                release_waiting(mill, [job_name], now)
            return saved
        if not mill.definitions.find(job_name):
            raise DefinitionNotFound(job_name)


def check_job_groups(
    mill: Mill, schedule: Schedule, definition: Definition, actor: Actor, scope: str
) -> None:
    """Raise Forbidden if the Jobs of a schedule use groups that an actor may not use for the definition.

    Its Jobs are started without a check. The groups that the definition names are within the scope already.
    """
    if actor.limited(scope):
        define = JobDefine.model_validate(definition.document)
        groups = _named_groups(schedule) | bound_groups_of(mill, define)
        check_groups(actor, scope, Work(definition.job_name, define.app_name or "", groups))


def _named_groups(schedule: Schedule) -> set[str]:
    """The worker groups that the steps of a schedule name."""
    given = [[step.get("workerGroup"), *(step.get("workerGroups") or ())] for step in schedule.steps]
    return {str(name) for names in given for name in names if name}


def _row(
    known: ScheduleRow | None, schedule: Schedule, stored: dict[str, object], actor: Actor, now: int
) -> ScheduleRow:
    values: dict[str, Any] = {
        "update_time": now,
        "update_user": actor.name,
        "document": stored,
        "status": schedule.status,
    }
    if not known or known.deleted:
        return ScheduleRow(
            job_name=schedule.job_name,
            id=schedule.schedule_id,
            version=known.version + 1 if known else 1,
            create_time=now,
            next=_first(schedule, now),
            **values,
        )
    if any(known.document.get(name) != stored.get(name) for name in _WHEN):
        if schedule.delay_seconds is None or not known.awaits:
            values |= {"next": _upcoming(known, schedule, now), "awaits": "", "fired": 0}
    if schedule.status == 1 and known.status != 1:
        values["on_since"] = now
    return known.evolve(version=known.version + 1, **values)


def _first(schedule: Schedule, now: int) -> int | None:
    if schedule.delay_seconds is not None:
        return fixed_delay.first_time(schedule, now)
    return catch_up.next_time(schedule.timetable, now)


def _upcoming(known: ScheduleRow, schedule: Schedule, now: int) -> int | None:
    """Return the next of changed times: from now on, or the due time if the changed schedule has it too."""
    due = known.next
    if due is not None and due <= now and catch_up.next_time(schedule.timetable, due - 1) == due:
        return due
    return _first(schedule, now)


def _check_expected(known: ScheduleRow | None, expected: Expected, job_name: str, schedule_id: str) -> None:
    version = known.version if known and not known.deleted else 0
    if expected not in (None, version) and not (expected == "any" and version):
        actual = f"is at version {version}" if version else "does not exist"
        raise PreconditionFailed(
            f"schedule {schedule_id!r} of {job_name!r} {actual}, which does not match the precondition; "
            "read it again and retry"
        )


def invalid(detail: str, faults: list[Fault]) -> ScheduleInvalid:
    return ScheduleInvalid(detail, faults=[each.model_dump() for each in faults])


def _subject(job_name: str, schedule_id: str) -> str:
    return f"the schedule {schedule_id!r} of {job_name!r}"


def read(mill: Mill, job_name: str, schedule_id: str) -> ScheduleRow:
    row = mill.schedules.get(job_name, schedule_id)
    if not row:
        raise ScheduleNotFound(job_name, schedule_id)
    return row


def delete(mill: Mill, job_name: str, schedule_id: str, now: int, *, expected: Expected = None) -> None:
    attempts = Attempts(_subject(job_name, schedule_id), _TRIES)
    while True:
        attempts.begin()
        row = read(mill, job_name, schedule_id)
        _check_expected(row, expected, job_name, schedule_id)
        if mill.schedules.delete(row, now=now):
            release_waiting(mill, [job_name], now)
            return


def resume_definition(mill: Mill, job_name: str, now: int) -> Definition:
    """Resume a definition, and have its schedules fire at their times from now on."""
    from shardmill.engine import definitions  # imported here because firing schedules does not need it

    resumed = definitions.resume(mill, job_name, now)
    hand_over_resumed(mill, list(mill.schedules.of_job(job_name)), now)
    return resumed


def upcoming_times(row: ScheduleRow, count: int, after: int) -> UpcomingTimes:
    """Return the next `count` times after a moment, and their meaning in words."""
    schedule = schedule_of(row)
    table = schedule.timetable
    moment = table.after(from_ms(after))
    found: list[When] = []
    if schedule.delay_seconds is not None and row.next is not None and not row.awaits:
        moment = max(from_ms(row.next), from_ms(after))
    while moment is not None and len(found) < count:
        found.append(When(utc=moment, local=table.local(moment).isoformat()))
        moment = table.after(moment)
    return UpcomingTimes(items=found, meaning=describe_schedule(schedule))


def schedule_of(row: ScheduleRow) -> Schedule:
    return Schedule.model_validate(row.document)


def view(row: ScheduleRow, *, history: int | None = None) -> SavedSchedule:
    """Return a schedule as the API shows it, with its last `history` firings."""
    waits = row.status == 1 and row.next is not None and not row.awaits
    saved = SavedSchedule.model_validate(
        {
            **row.document,
            "version": row.version,
            "nextTime": from_ms(row.next) if waits and row.next is not None else None,
            "awaitedJob": row.awaits or None,
            "createTime": from_ms(row.create_time),
            "updateTime": from_ms(row.update_time),
            "updateUser": row.update_user,
            "history": [_firing(entry) for entry in islice(row.history, history)],
        }
    )
    return saved.model_copy(update={"meaning": describe_schedule(saved)})


def _firing(entry: dict[str, object]) -> Firing:
    times = {name: from_ms(int(str(entry[name]))) for name in ("time", "until", "firedTime") if name in entry}
    return Firing.model_validate({**entry, **times})
