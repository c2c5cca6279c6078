"""Start the Jobs of definitions that have dependencies and no schedule, when their parents succeed.

| dependencies | one child |
| --- | --- |
| without windows, on one parent | for each dataTime of the parent |
| without windows, on several parents | for each dataTime that all of them share; other successes count for the next child, which starts when each parent has succeeded since the last start |
| all with windows | for each calendar unit |
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shardmill.aws.observability import logger
from shardmill.engine.access.errors import LimitReached
from shardmill.engine.conflict import Attempts
from shardmill.engine.errors import DefinitionSuspended, MillError, TriggerTaken
from shardmill.engine.jobs.cancelled_runs import fires_at
from shardmill.engine.jobs.submit import Origin, submit
from shardmill.engine.mill import Mill
from shardmill.engine.running.finish import SCHEMA_VERSION
from shardmill.model.actor import Actor
from shardmill.model.base import MAX_NAME
from shardmill.model.definition.fields import MAX_DEPENDENCIES, Dependency
from shardmill.model.errors import Transient
from shardmill.model.states import JobState
from shardmill.model.time.dependency_window import narrowest, unit_at
from shardmill.model.timestamps import from_ms, to_ms
from shardmill.store.rows import JobRow

TRIGGER = "%Y%m%dT%H%M%SZ"
CHILD_REFUSED = "Child Refused"
_TRIES = 40  # an attempt fails only because another parent's end was faster
_ID_DIGITS = 8

NewId = Callable[[], str]


def start_child(mill: Mill, parent: JobRow, name: str, now: int, new_id: NewId) -> None:
    """Start a child, or count the success of one of its parents; idempotent."""
    if next(mill.schedules.of_job(name), None):
        return
    saved = mill.definitions.find(name)
    dependencies = _dependencies(saved.document) if saved else []
    of_others = [each for each in dependencies if each.job_name != name]
    parents = list(dict.fromkeys(each.job_name for each in of_others if each.window is None))
    starter = _Starter(mill, parent, name, now, new_id)
    if not parents:
        starter.start_for_unit(of_others)
    elif parent.job_name in parents:
        starter.start_for_time(parents)


def _dependencies(document: Mapping[str, Any]) -> list[Dependency]:
    return [Dependency.model_validate(each) for each in document.get("dependencies", ())]


class _Starter:
    def __init__(self, mill: Mill, parent: JobRow, name: str, now: int, new_id: NewId) -> None:
        self._mill = mill
        self._parent = parent
        self._name = name
        self._now = now
        self._new_id = new_id
        succeeded = parent.state is JobState.SUCCESS
        self._done = {} if succeeded else {parent.job_name: parent.moment}

    def start_for_time(self, parents: Sequence[str]) -> None:
        """Start the child of the parent's dataTime if all parents share it; else count the success."""
        moment = self._parent.moment
        existing = self._existing(moment, moment + 1)
        if not any(self._waits_for_parent(job) for job in existing):
            others = [name for name in parents if name != self._parent.job_name]
            if not existing and all(self._has_run_at(name, moment) for name in others):
                if others:
                    self._forget_successes()
                origin = Origin(by_parents=True, done=self._done)
                self._submit(moment, origin, self._new_id, f"after-{self._parent.job_name}")
            else:
                self._count(parents)
        if len(parents) > 1:
            self._start_if_complete(parents)

    def start_for_unit(self, dependencies: Sequence[Dependency]) -> None:
        """Start the child of the calendar unit whose windows end with the parent's dataTime."""
        windows = [(each.job_name, each.window) for each in dependencies if each.window]
        narrow = narrowest([window for _, window in windows])
        zone = self._zone(dependencies)
        for name, window in windows:
            if name != self._parent.job_name:
                continue
            moment = from_ms(self._parent.moment)
            if window.to:
                moment, _ = unit_at(window, moment, zone, -window.to)
            start, end = map(to_ms, unit_at(narrow, moment, zone))
            if not self._existing(start, end):
                origin = Origin(timezone=zone, by_parents=True, done=self._done)
                self._submit(start, origin, self._new_id, f"after-{self._parent.job_name}")

    def _existing(self, start: int, end: int) -> list[JobRow]:
        """Return the child's Jobs with `start <= dataTime < end`."""
        ids = [job_id for _, job_id in self._mill.runs.between(self._name, start, end)]
        return list(self._mill.jobs.by_id(ids).values()) if ids else []

    def _waits_for_parent(self, job: JobRow) -> bool:
        """Return whether the parent's Job is among the runs that a Job of the child waits or waited for."""
        return any(
            each["jobName"] == self._parent.job_name and each["from"] <= self._parent.moment < each["to"]
            for each in job.expected
        )

    def _has_run_at(self, name: str, moment: int) -> bool:
        """Return whether another parent has a Job with a dataTime, or a schedule that will start one."""
        if next(self._mill.runs.between(name, moment, moment + 1), None):
            return True
        for row in self._mill.schedules.of_job(name):
            if row.status == 1 and fires_at(row, moment):
                skips = self._mill.schedules.skips(name, row.id, moment, moment + 1)
                if not any(first <= moment <= last for first, last in skips):
                    return True
        return False

    def _zone(self, dependencies: Sequence[Dependency]) -> str:
        """Return the time zone of the first parent that has a schedule; one zone makes one child a unit."""
        for name in dict.fromkeys(each.job_name for each in dependencies):
            for row in self._mill.schedules.of_job(name):
                if row.status == 1:
                    return str(row.document.get("timezone", "UTC"))
        return "UTC"

    def _count(self, parents: Sequence[str]) -> None:
        """Count the parent's Job once for the next start, even if it succeeds again or this is repeated.

        When the row has as many successes as there can be parents, successes of former parents are removed.
        """
        parent = self._parent
        attempts = Attempts(f"the next start of {self._name!r}", _TRIES)
        while self._name not in parent.counted:
            attempts.begin()
            row = self._mill.child_starts.get(self._name)
            latest = max([parent.moment, parent.id], row.succeeded.get(parent.job_name, [parent.moment, ""]))
            known = row.succeeded
            if len(known) >= MAX_DEPENDENCIES:
                known = {name: known[name] for name in parents if name in known}
            changed = row.evolve(succeeded={**known, parent.job_name: latest})
            if self._mill.child_starts.count(row, changed, parent) is not False:
                return

    def _start_if_complete(self, parents: Sequence[str]) -> None:
        """Start the child if each parent has succeeded since the last start, or finish a start."""
        starts = self._mill.child_starts
        attempts = Attempts(f"the next start of {self._name!r}", _TRIES)
        while True:
            attempts.begin()
            row = starts.get(self._name)
            if row.starting:
                self._create(row.starting)
                starts.change(row, row.evolve(starting={}))
            elif all(name in row.succeeded for name in parents):
                times = {name: row.succeeded[name][0] for name in parents}
                jobs = {name: row.succeeded[name][1] for name in parents}
                start = {"id": self._new_id(), "dataTime": max(times.values()), "parents": times}
                start["jobs"] = jobs
                starts.change(row, row.evolve(succeeded={}, starting=start))
            else:
                return

    def _forget_successes(self) -> None:
        """Note that a child starts for a shared dataTime: earlier successes no longer count."""
        attempts = Attempts(f"the next start of {self._name!r}", _TRIES)
        while True:
            attempts.begin()
            row = self._mill.child_starts.get(self._name)
            if not row.succeeded or self._mill.child_starts.change(row, row.evolve(succeeded={})):
                return

    def _create(self, start: Mapping[str, Any]) -> None:
        """Create the Job of a committed start, unless it exists."""
        times = start["parents"]
        done = {name: times[name] for name in self._deleted(start.get("jobs", {}))}
        origin = Origin(by_parents=True, parents=times, done={**self._done, **done})
        own = str(start["id"])
        self._submit(start["dataTime"], origin, lambda: own, own[:_ID_DIGITS], own=own)

    def _deleted(self, jobs: Mapping[str, str]) -> list[str]:
        """Return the parents whose Jobs were deleted since their success was counted."""
        others = {name: job_id for name, job_id in jobs.items() if job_id != self._parent.id}
        present = self._mill.jobs.by_id(others.values()) if others else {}
        states = {name: present[job_id].state for name, job_id in others.items() if job_id in present}
        return [name for name in others if states.get(name, JobState.DELETED) is JobState.DELETED]

    def _submit(self, moment: int, origin: Origin, new_id: NewId, suffix: str, own: str = "") -> None:
        """Submit the child's Job; with `own`, under a trigger that has no Job with another id."""
        time = from_ms(moment)
        trigger = time.strftime(TRIGGER) + (f"-{moment % 1000:03d}" if moment % 1000 else "")
        for candidate in (trigger, f"{trigger}-{suffix}"[:MAX_NAME]):
            request = {"jobName": self._name, "trigger": candidate, "dataTime": time.isoformat()}
            actor = Actor(self._parent.submit_user)
            try:
                made = submit(self._mill, request, actor, now=self._now, new_id=new_id, origin=origin)
            except TriggerTaken:
                continue  # by a Job with another dataTime
            except (Transient, DefinitionSuspended, LimitReached):
                raise  # the next tick will retry
            except MillError as error:
                # A retry would be rejected again, and there is no caller to report this to.
                self._report_refusal(moment, error)
                return
            if own in ("", made.job.id):
                return

    def _report_refusal(self, moment: int, error: MillError) -> None:
        parent = self._parent
        detail = {
            "schemaVersion": SCHEMA_VERSION,
            "jobName": self._name,
            "parentJobName": parent.job_name,
            "parentTrigger": parent.trigger,
            "dataTime": from_ms(moment).isoformat(),
            "code": error.code,
            "reason": str(error)[:1000],
        }
        self._mill.bus.publish_best_effort(CHILD_REFUSED, detail)
        extra = {
            "action": "start-dependent",
            "jobName": self._name,
            "parentId": parent.id,
            "code": error.code,
        }
        logger.warning(f"child job rejected; it will not start: {error}", extra=extra)
