"""Dependencies between Jobs: the runs of parents that a Job waits for, fixed when it is created.

A Job and its edges are written before it reads its parents; a parent writes its end before it reads the
edges. So at least one of the two sees the other. The tick checks again in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from shardmill.aws.observability import logger
from shardmill.engine.errors import RequestInvalid
from shardmill.engine.jobs.cancelled_runs import CancelledRuns, Run
from shardmill.engine.mill import RECHECK_MS, Mill
from shardmill.model.errors import Transient
from shardmill.model.fault import Fault, fault
from shardmill.model.states import JobState
from shardmill.model.time.dependency_window import bounds
from shardmill.model.time.packed_times import pack, unpack
from shardmill.model.timestamps import from_ms, to_ms, utc_text
from shardmill.store.rows import JobRow

if TYPE_CHECKING:
    from shardmill.model.definition.fields import Dependency, JobDefine

MAX_EXPECTED = 10_000
WIDE = 200
"""For a dependency with more expected runs, a check reads only the runs from the first missing one on."""
_PAGE = 100
MAX_NAMED = 5
NO_SCHEDULE = ""
START_GRACE_MS = 60_000


def expected_runs(
    mill: Mill,
    define: JobDefine,
    job: JobRow,
    moments: Mapping[str, int] = MappingProxyType({}),
    done: Mapping[str, int] = MappingProxyType({}),
) -> list[dict[str, Any]]:
    """Return the runs that a new Job will wait for, as stored in its row. Raises RequestInvalid.

    `moments`: the dataTimes of parents without a window, where they differ from the Job's own.
    `done`: the dataTimes of parents' Jobs that succeeded and can no longer be read.
    """
    faults: list[Fault] = []
    found: list[dict[str, Any]] = []
    count = 0
    for dependency in define.dependencies:
        if dependency.window is None and job.data_time is None:
            text = (
                f"is required: the Job depends on the Job of {dependency.job_name!r} with the same dataTime"
            )
            faults.append(fault(("dataTime",), "missing-field", text))
            continue
        start, end, times = _times(mill, dependency, job, moments.get(dependency.job_name, job.moment))
        if dependency.job_name in done:
            times = _without(times, done[dependency.job_name])
        found.append(
            {
                "jobName": dependency.job_name,
                "strategy": dependency.strategy,
                "from": start,
                "to": end,
                "times": None if times is None else {name: pack(each) for name, each in times.items()},
            }
        )
        count += sum(map(len, (times or {}).values()))
    if count > MAX_EXPECTED:
        text = f"the dependencies cover more than {MAX_EXPECTED} runs; use narrower windows"
        faults.append(fault(("dataTime",), "window-too-wide", text))
    if faults:
        unique = {each.message: each.model_dump() for each in faults}
        raise RequestInvalid("the Job's dependencies cannot be resolved", faults=list(unique.values()))
    return found


def _times(
    mill: Mill, dependency: Dependency, job: JobRow, moment: int
) -> tuple[int, int, dict[str, list[int]] | None]:
    """Return the bounds of a window, and by schedule of the parent, if it has any, the times in it."""
    if dependency.window is None:
        return moment, moment + 1, {NO_SCHEDULE: [moment]}
    from shardmill.model.time.schedule import Schedule  # imports cron, which only windows need

    rows = [row for row in mill.schedules.of_job(dependency.job_name) if row.status == 1]
    listed = [Schedule.model_validate(row.document) for row in rows]
    schedules = [each for each in listed if each.delay_seconds is None]  # the others have no fixed times
    zone = job.timezone or next((each.timezone for each in schedules), "UTC")
    start, end = bounds(dependency.window, from_ms(job.moment), zone)
    if not schedules:
        return to_ms(start), to_ms(end), None
    times = {
        each.schedule_id: [to_ms(t) for t in islice(each.timetable.times(start, end), MAX_EXPECTED + 1)]
        for each in schedules
    }
    return to_ms(start), to_ms(end), times


def _without(times: dict[str, list[int]] | None, moment: int) -> dict[str, list[int]]:
    return {name: [time for time in each if time != moment] for name, each in (times or {}).items()}


def runs(mill: Mill, job: JobRow) -> list[list[Run]]:
    """Return the runs that a Job waits for, one list per dependency, with their present Jobs."""
    return [list(_runs_of(mill, each)) for each in job.expected]


def _runs_of(mill: Mill, expected: dict[str, Any]) -> Iterator[Run]:
    parent, strategy, times = expected["jobName"], expected["strategy"], expected["times"]
    start, end = expected["from"], expected["to"]
    found = _jobs_between(mill, parent, start, end)
    if times is None:
        listed = [(time, NO_SCHEDULE) for time in sorted(found)]
    else:
        listed = _listed(expected)
        if strategy == "any":  # a run that no schedule started counts too
            listed += [(time, NO_SCHEDULE) for time in sorted(found.keys() - {time for time, _ in listed})]
    skips = {
        name: mill.schedules.skips(parent, name, start, end)
        for name in {name for time, name in listed if name and not _best(found.get(time, []), name)}
    }
    for time, name in listed:
        job = _best(found.get(time, []), name)
        if job or not any(first <= time <= last for first, last in skips.get(name, ())):
            yield Run(parent, strategy, time, job, name)
    if not listed and times is None:
        yield Run(parent, strategy, None, None)


def _listed(expected: dict[str, Any]) -> list[tuple[int, str]]:
    """Return the times of the expected runs with the schedules of the parent, in order."""
    return sorted((time, name) for name, each in expected["times"].items() for time in unpack(each))


def _first_missing(
    mill: Mill, expected: dict[str, Any], since: int, cancelled: Callable[[Run], bool]
) -> int | None:
    """Return the time of the first expected run from `since` on that has not succeeded; None if all have."""
    parent = expected["jobName"]
    listed = [each for each in _listed(expected) if each[0] >= since]
    for at in range(0, len(listed), _PAGE):
        page = listed[at : at + _PAGE]
        first, end = page[0][0], page[-1][0] + 1
        found = _jobs_between(mill, parent, first, end)
        skips: dict[str, list[tuple[int, int]]] = {}
        for time, name in page:
            run = Run(parent, expected["strategy"], time, _best(found.get(time, []), name), name)
            if run.done:
                continue
            if not run.job and name and name not in skips:
                skips[name] = mill.schedules.skips(parent, name, first, end)
            skipped = not run.job and any(a <= time <= b for a, b in skips.get(name, ()))
            if not skipped and not cancelled(run):
                return time
    return None


def _jobs_between(mill: Mill, parent: str, start: int, end: int) -> dict[int, list[JobRow]]:
    places = list(islice(mill.runs.between(parent, start, end), 2 * MAX_EXPECTED))
    jobs = mill.jobs.by_id([job_id for _, job_id in places]) if places else {}
    found: dict[int, list[JobRow]] = {}
    for time, job_id in places:
        job = jobs.get(job_id)
        if job and job.state is not JobState.DELETED:
            found.setdefault(time, []).append(job)
    return found


def _best(jobs: Sequence[JobRow], schedule_id: str) -> JobRow | None:
    """Return the Job of one time that counts for a schedule: its own or a manual one, successful first."""
    own = [job for job in jobs if not schedule_id or job.schedule_id in (schedule_id, NO_SCHEDULE)]
    return next((job for job in own if job.state is JobState.SUCCESS), own[-1] if own else None)


def met(expected: Sequence[Run]) -> bool:
    """Return whether the runs of one dependency satisfy its strategy."""
    if not expected:
        return True
    strategy = expected[0].strategy
    if strategy == "any":
        return any(run.done for run in expected)
    if strategy.startswith("last:"):
        wanted = int(strategy.removeprefix("last:"))
        return all(run.done for run in expected[-wanted:])
    return all(run.done for run in expected)


def check_dependencies(mill: Mill, job: JobRow, now: int) -> bool:
    """Start a waiting Job if its dependencies are met, or fail it if it expired; False if it still waits."""
    if job.not_before is not None and job.not_before > now:
        return False
    cancelled = CancelledRuns(mill, job)
    gaps = _gaps(mill, job, cancelled)
    missing = [] if gaps else missing_runs(mill, job, cancelled)
    if not gaps and not missing:
        if mill.jobs.dependencies_met(job, now=now, due=now + RECHECK_MS):
            mill.machines.start_job(job.id, job.run)
            mill.runs.delete_edges(job)
        return True
    notes = _notes_of_gaps(job, gaps) if gaps else _notes(missing)
    assert job.expires is not None
    if job.expires <= now:
        from shardmill.engine.running.finish import expire

        expire(mill, job, f"expired: {notes}", now)
        return True
    if notes != job.notes:
        mill.jobs.note_waiting(job, notes, gaps, now=now, due=min(now + RECHECK_MS, job.expires))
    return False


def missing_runs(mill: Mill, job: JobRow, cancelled: Callable[[Run], bool] | None = None) -> list[Run]:
    """Return the runs that keep a Job waiting, without cancelled ones."""
    cancelled = cancelled or CancelledRuns(mill, job)
    found = [[run for run in each if run.done or not cancelled(run)] for each in runs(mill, job)]
    return [run for each in found if not met(each) for run in each if not run.done]


def _gaps(mill: Mill, job: JobRow, cancelled: Callable[[Run], bool]) -> dict[str, int]:
    """Return the first missing run of each wide dependency that needs all of its runs, by its number.

    Runs before the last known gap are not read again. When no gap is left, all of them are checked once more.
    """
    gaps: dict[str, int] = {}
    for number, each in enumerate(job.expected):
        if each["strategy"] == "all" and each["times"] and _is_wide(each):
            since = job.first_missing.get(str(number), each["from"])
            gap = _first_missing(mill, each, since, cancelled)
            if gap is not None:
                gaps[str(number)] = gap
    return gaps


def _is_wide(expected: dict[str, Any]) -> bool:
    return sum(len(unpack(each)) for each in expected["times"].values()) > WIDE


def _notes_of_gaps(job: JobRow, gaps: Mapping[str, int]) -> str:
    named = [
        f"{job.expected[int(number)]['jobName']} of {utc_text(time)} and may wait for later runs"
        for number, time in islice(gaps.items(), MAX_NAMED)
    ]
    return f"waits for {', '.join(named)}"


def waits_for(expected: Sequence[Mapping[str, Any]]) -> str:
    """Name the parents of a Job before its first check, which names their runs."""
    named = list(dict.fromkeys(each["jobName"] for each in expected))
    return _waits_for(named[:MAX_NAMED], len(named))


def waits_until(time: int) -> str:
    return f"waits until {from_ms(time).strftime('%Y-%m-%dT%H:%M:%SZ')}, as requested"


def _notes(missing: Sequence[Run]) -> str:
    named = [_describe(run) for run in sorted(missing, key=lambda run: run.job is None)[:MAX_NAMED]]
    return _waits_for(named, len(missing))


def _waits_for(named: Sequence[str], count: int) -> str:
    more = f" and {count - len(named)} more" if count > len(named) else ""
    return f"waits for {', '.join(named)}{more}"


def _describe(run: Run) -> str:
    if run.job:
        return f"{run.parent}/{run.job.trigger} ({run.job.state})"
    if run.time is None:
        return f"a run of {run.parent}"
    return f"{run.parent} of {utc_text(run.time)}"


def start_job(mill: Mill, job: JobRow, now: int) -> None:
    """Start a new Job or check its dependencies; if that fails, the next tick does."""
    try:
        if job.unmet:
            check_dependencies(mill, job, now)
        else:
            mill.machines.start_job(job.id, job.run)
    except (ClientError, BotoCoreError, Transient):
        extra = {"action": "start-execution", "jobId": job.id, "run": job.run}
        logger.exception("StartExecution failed; the next tick will retry", extra=extra)
