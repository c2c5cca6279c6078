"""Schedules, their firings and backfills, as methods of the Client."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

from pydantic.alias_generators import to_camel

from shardmill.client.calls import (
    Calls,
    Submitted,
    backfill_path,
    precondition,
    read,
    schedule_path,
    schedules_path,
    time_text,
)
from shardmill.client.documents import document_of
from shardmill.client.follow import wait_for_backfill
from shardmill.model.time.backfill import Backfill
from shardmill.model.time.schedule import SavedSchedule, Schedule, UpcomingTimes, When

ScheduleDocument = Mapping[str, Any] | Schedule | str | Path


class ScheduleFields(TypedDict, total=False):
    """The fields of a Schedule, as keyword arguments."""

    status: Literal[0, 1]
    cron: str | None
    every_seconds: int | None
    every_months: int | None
    delay_seconds: int | None
    at: datetime | str | None
    times: Sequence[datetime | str]
    timezone: str
    start_date: date | str | None
    end_date: date | str | None
    max_times: int | None
    overlap: Literal["allow", "skip", "queue", "replace"]
    catch_up: Literal["none", "latest", "all"]
    max_lateness_seconds: int | None
    params: Mapping[str, Any]
    steps: Sequence[Mapping[str, Any]]
    priority: int | None
    trigger_format: str | None


class ScheduleCalls(Calls):
    def save_schedule(
        self,
        job_name: str,
        schedule_id: str,
        document: ScheduleDocument | None = None,
        *,
        expected: int | None = None,
        **fields: Unpack[ScheduleFields],
    ) -> SavedSchedule:
        """Save a schedule: a document, a Schedule, the path of a JSON or YAML file, or its fields.

        Fields override the document's. `expected`: fail unless this is the current version; 0: unless
        the schedule does not exist.
        """
        content = {} if document is None else document_of(document)
        if isinstance(content, Mapping):
            content = {
                **content,
                **{to_camel(name): _json_value(value, name) for name, value in fields.items()},
            }
        return self._put_schedule(job_name, schedule_id, content, expected)

    def schedule(self, job_name: str, schedule_id: str) -> SavedSchedule:
        """A schedule with its last firings."""
        return read(SavedSchedule, self._http.get(schedule_path(job_name, schedule_id)))

    def schedules(self, job_name: str | None = None) -> Iterator[SavedSchedule]:
        """All schedules, or the schedules of a definition, each with its last firing."""
        return self._list(SavedSchedule, schedules_path(job_name))

    def delete_schedule(self, job_name: str, schedule_id: str, *, expected: int | None = None) -> None:
        """Delete a schedule; Jobs that it started continue."""
        path = schedule_path(job_name, schedule_id)
        self._http.send("DELETE", path, headers=precondition(expected))

    def switch_schedule(self, job_name: str, schedule_id: str, *, on: bool) -> SavedSchedule:
        """Turn a schedule on or off; fails if it is changed concurrently."""
        document = self._http.get(schedule_path(job_name, schedule_id))
        found = read(SavedSchedule, document)
        if found.status == int(on):
            return found
        changed = {**document, "status": int(on)}  # keep fields of a newer server
        return self._put_schedule(job_name, schedule_id, changed, found.version)

    def next_times(
        self, job_name: str, schedule_id: str, count: int = 10, after: datetime | str | None = None
    ) -> list[When]:
        """The next times of a schedule, even if it is off, after now or after `after`."""
        return self.upcoming(job_name, schedule_id, count, after).items

    def upcoming(
        self, job_name: str, schedule_id: str, count: int = 10, after: datetime | str | None = None
    ) -> UpcomingTimes:
        """The same times, with the meaning of the schedule in words."""
        query = {"count": count, "from": None if after is None else time_text(after, "from")}
        return read(UpcomingTimes, self._http.get(f"{schedule_path(job_name, schedule_id)}/next", query))

    def fire(
        self,
        job_name: str,
        schedule_id: str,
        data_time: datetime | str | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> Submitted:
        """Start a Job of a schedule now; its regular times do not change.

        There is only one Job for a dataTime, so that a request with one is retried like `submit`; a request
        without one is not.
        """
        request: dict[str, Any] = {"params": dict(params)} if params else {}
        if data_time is not None:
            request["dataTime"] = time_text(data_time, "dataTime")
        path = f"{schedule_path(job_name, schedule_id)}:fire"
        return self._start_job(path, request, idempotent=data_time is not None)

    def backfill(
        self,
        job_name: str,
        schedule_id: str,
        *,
        start: datetime | str | None = None,
        end: datetime | str | None = None,
        times: Sequence[datetime | date | str] = (),
        parallel: int = 1,
        order: Literal["asc", "desc"] = "asc",
        force: bool = False,
    ) -> Backfill:
        """Run one Job for each time of a schedule from `start` and before `end`, or for each of `times`.

        A date in `times` is the whole day in the schedule's time zone. `parallel`: the maximum number of Jobs
        at once. `force`: include times whose Job has succeeded.
        """
        request: dict[str, Any] = {"parallel": parallel, "order": order, "force": force}
        if start is not None:
            request["from"] = time_text(start, "from")
        if end is not None:
            request["to"] = time_text(end, "to")
        if times:
            request["times"] = [_json_value(each, "times") for each in times]
        path = f"{schedule_path(job_name, schedule_id)}:backfill"
        return read(Backfill, self._http.send("POST", path, document=request))

    def backfills(self, job_name: str, schedule_id: str) -> Iterator[Backfill]:
        """The backfills of a schedule, newest first."""
        return self._list(Backfill, f"{schedule_path(job_name, schedule_id)}/backfills")

    def backfill_status(self, job_name: str, schedule_id: str, number: int) -> Backfill:
        """The progress of a backfill."""
        return read(Backfill, self._http.get(backfill_path(job_name, schedule_id, number)))

    def stop_backfill(self, job_name: str, schedule_id: str, number: int) -> Backfill:
        """Start no more Jobs of a backfill; running Jobs continue."""
        path = f"{backfill_path(job_name, schedule_id, number)}:stop"
        return read(Backfill, self._http.send("POST", path, idempotent=True))

    def wait_backfill(
        self,
        job_name: str,
        schedule_id: str,
        number: int,
        timeout: float | None = None,
        on_update: Callable[[Backfill], None] | None = None,
    ) -> Backfill:
        """Wait until a backfill has no running Jobs and will start no more, and return it.

        `on_update` is called with each state that is read. Raises `WaitTimedOut` after `timeout` seconds.
        """
        return wait_for_backfill(
            lambda: self.backfill_status(job_name, schedule_id, number), timeout, on_update
        )

    def _put_schedule(
        self, job_name: str, schedule_id: str, document: Any, expected: int | None
    ) -> SavedSchedule:
        path = schedule_path(job_name, schedule_id)
        answer = self._http.send("PUT", path, document=document, headers=precondition(expected))
        return read(SavedSchedule, answer)


def _json_value(value: object, field: str) -> object:
    """A value as it is sent in JSON."""
    if isinstance(value, datetime):
        return time_text(value, to_camel(field))
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_json_value(each, field) for each in value]
    return dict(value) if isinstance(value, Mapping) else value
