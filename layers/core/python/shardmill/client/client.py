"""The Python SDK: Shardmill's HTTP API as methods, with the same models as the server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from shardmill.client.calls import (
    MAX_BATCH_BYTES,
    PAGE,
    Submitted,
    batches,
    definition_path,
    job_path,
    new_trigger,
    precondition,
    read,
    step_overrides,
    step_path,
    task_path,
    time_text,
)
from shardmill.client.connection import connection
from shardmill.client.control import ControlCalls, SuspensionCalls
from shardmill.client.dead_letters import DeadLetterCalls
from shardmill.client.documents import document_of
from shardmill.client.errors import Invalid
from shardmill.client.files import FileCalls
from shardmill.client.follow import LogPage, follow_attempt, follow_log, read_log, wait_for
from shardmill.client.http import Http
from shardmill.client.local_files import Progress
from shardmill.client.overview import OverviewCalls
from shardmill.client.schedules import ScheduleCalls
from shardmill.client.tokens import TokenCalls
from shardmill.client.transfer import ObjectStore
from shardmill.client.workers import WorkerCalls
from shardmill.model.base import Answer
from shardmill.model.batch import MAX_REQUESTS, BatchItem
from shardmill.model.definition.answers import JobGraph, ListedDefine, SavedDefine
from shardmill.model.definition.fields import Info, JobDefine
from shardmill.model.fault import Fault, fault
from shardmill.model.job import DependencyStatus, Job, Step, Task
from shardmill.model.states import JobState, TaskState

if TYPE_CHECKING:
    import httpx

Document = Mapping[str, Any] | JobDefine | str | Path
Stream = Literal["stdout", "stderr"]


class Validation(Answer):
    """The result of a validation."""

    valid: bool
    faults: list[Fault]


class Client(
    ControlCalls,
    DeadLetterCalls,
    FileCalls,
    OverviewCalls,
    ScheduleCalls,
    SuspensionCalls,
    TokenCalls,
    WorkerCalls,
):
    """A client of the API at `url`, else SHARDMILL_URL, else the running `shardmill dev`.

    All exceptions are subclasses of `ShardmillError`. Requests that are safe to repeat (reading, submitting,
    suspending, resuming, killing, forcing) are retried when the connection or the server fails.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout: float = 30.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        found = connection(url, token)
        self.url = found.url
        self._http = Http(found, timeout=timeout, transport=transport)
        self._store = ObjectStore(timeout=timeout, trust_env=not found.loopback, transport=transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()
        self._store.close()

    @property
    def calls(self) -> int:
        """The number of requests sent to the API."""
        return self._http.calls

    # definitions

    def define(self, document: Document, *, expected: int | None = None) -> SavedDefine:
        """Save a definition: a document, a JobDefine, or the path of a JSON or YAML file.

        `expected`: fail unless this is the newest version; 0: unless there is none.
        """
        content = document_of(document)
        job_name = content.get("jobName") if isinstance(content, dict) else None
        if not isinstance(job_name, str):
            faults = [fault(("jobName",), "missing-field", "is required")]
            raise Invalid("the definition has no jobName", code="invalid-definition", faults=faults)
        path = definition_path(job_name)
        return read(
            SavedDefine, self._http.send("PUT", path, document=content, headers=precondition(expected))
        )

    def validate(self, document: Document) -> list[Fault]:
        """All faults of a definition; nothing is saved."""
        answer = self._http.send(
            "POST", "/v1/definitions:validate", document=document_of(document), idempotent=True
        )
        return read(Validation, answer).faults

    def definitions(self) -> Iterator[ListedDefine]:
        """All definitions, sorted by name, without their steps."""
        return self._list(ListedDefine, "/v1/definitions")

    def versions(self, job_name: str) -> Iterator[ListedDefine]:
        """All versions of a definition, newest first, without their steps."""
        return self._list(ListedDefine, f"{definition_path(job_name)}/versions")

    def definition(self, job_name: str, version: int | None = None) -> SavedDefine:
        """A definition in its newest version, or in `version`."""
        path = definition_path(job_name)
        return read(SavedDefine, self._http.get(path, {"version": version}))

    def delete_definition(self, job_name: str, *, expected: int | None = None) -> None:
        path = definition_path(job_name)
        self._http.send("DELETE", path, headers=precondition(expected))

    def job_graph(self) -> JobGraph:
        """The dependencies between definitions, and which of them have schedules."""
        return read(JobGraph, self._http.get("/v1/definitions:graph"))

    # jobs

    def submit(
        self,
        job_name: str,
        trigger: str | None = None,
        params: Mapping[str, Any] | None = None,
        steps: Mapping[str, Mapping[str, Any]] | None = None,
        data_time: datetime | str | None = None,
        *,
        overrides: Mapping[str, Mapping[str, Any]] | None = None,
        after: datetime | str | None = None,
        deadline_seconds: int | None = None,
        priority: int | None = None,
        execute_user: str | None = None,
        info: Info | None = None,
        files: Mapping[str, str | Path] | None = None,
        data_token: str | None = None,
        progress: Progress | None = None,
    ) -> Submitted:
        """Submit a Job; submitting the same trigger and content again returns the same Job.

        `steps`: parameters of steps, by name. `overrides`: other changes to steps for this Job, by name,
        such as {"load": {"sharding": 6}, "mail": {"ignore": True}}. `after`: the Job starts then or later.
        The default trigger is the current time. `files`: paths of files to upload with the Job, by the names
        under which its steps read them. `data_token`: a secret for the tasks of a Job with `info.auth`.
        """
        trigger = new_trigger() if trigger is None else trigger
        job_path(job_name, trigger)
        given = {
            "jobName": job_name,
            "trigger": trigger,
            "params": dict(params) if params else None,
            "steps": step_overrides(steps or {}, overrides or {}) or None,
            "dataTime": None if data_time is None else time_text(data_time, "dataTime"),
            "after": None if after is None else time_text(after, "after"),
            "deadlineSeconds": deadline_seconds,
            "priority": priority,
            "executeUser": execute_user,
            "info": info and info.model_dump(mode="json", exclude_unset=True),
            "files": self._upload_all(files, progress) if files else None,
            "dataToken": data_token,
        }
        request = {name: value for name, value in given.items() if value is not None}
        return self._start_job("/v1/jobs", request, idempotent=True)

    def submit_batch(self, requests: Iterable[Mapping[str, Any]]) -> Iterator[BatchItem]:
        """Submit JobRequests, as JSON documents, a hundred at a time; yield the answer to each in order.

        A request that fails does not stop the others, and repeating a batch is safe. Requests that the API
        could not process in time are sent again.
        """
        for batch in batches(requests, MAX_REQUESTS, MAX_BATCH_BYTES):
            yield from self._submit_batch(batch)

    def job(self, job_name: str, trigger: str, *, run: int | None = None) -> Job:
        """A Job with its steps; `run`, here and below, selects an earlier run."""
        return read(Job, self._http.get(job_path(job_name, trigger), {"run": run}))

    def jobs(
        self,
        job_name: str | None = None,
        state: JobState | None = None,
        submit_user: str | None = None,
        *,
        page: int = PAGE,
    ) -> Iterator[Job]:
        """Jobs, newest first, without their steps; `page` is the number of Jobs per request."""
        query = {"jobName": job_name, "state": state and state.value, "submitUser": submit_user}
        return self._list(Job, "/v1/jobs", query, page)

    def wait(
        self,
        job_name: str,
        trigger: str,
        timeout: float | None = None,
        on_update: Callable[[Job], None] | None = None,
    ) -> Job:
        """Wait until a Job has ended, or was suspended by a failure (`onFailure: suspend`), and return it.

        `on_update` is called with each state that is read. Raises `WaitTimedOut` after `timeout` seconds.
        """
        return wait_for(lambda: self.job(job_name, trigger), timeout, on_update)

    def dependencies(self, job_name: str, trigger: str) -> list[DependencyStatus]:
        """The Jobs that a Job waits for or waited for."""
        return list(self._list(DependencyStatus, f"{job_path(job_name, trigger)}/dependencies"))

    def steps(self, job_name: str, trigger: str, *, run: int | None = None) -> list[Step]:
        return self.job(job_name, trigger, run=run).steps

    def step(self, job_name: str, trigger: str, step_name: str, *, run: int | None = None) -> Step:
        """A step; with the states of its tasks if there are at most 1,000."""
        return read(Step, self._http.get(step_path(job_name, trigger, step_name), {"run": run}))

    def tasks(
        self,
        job_name: str,
        trigger: str,
        step_name: str,
        state: TaskState | None = None,
        *,
        run: int | None = None,
        page: int = PAGE,
    ) -> Iterator[Task]:
        """The tasks of a step, sorted by index."""
        path = f"{step_path(job_name, trigger, step_name)}/tasks"
        return self._list(Task, path, {"state": state and state.value, "run": run}, page)

    def some_tasks(
        self, job_name: str, trigger: str, step_name: str, state: TaskState, most: int
    ) -> list[Task]:
        """At most `most` tasks of a step in a state, from one request."""
        path = f"{step_path(job_name, trigger, step_name)}/tasks"
        return self._page(Task, path, {"state": state.value, "limit": most})[0]

    def task(
        self, job_name: str, trigger: str, step_name: str, index: int, *, run: int | None = None
    ) -> Task:
        """A task with its attempts and the end of its logs."""
        return read(Task, self._http.get(task_path(job_name, trigger, step_name, index), {"run": run}))

    def logs(
        self,
        job_name: str,
        trigger: str,
        step_name: str,
        index: int,
        stream: Stream = "stdout",
        *,
        attempt: int | None = None,
        follow: bool = False,
    ) -> Iterator[str]:
        """The log of a task's last attempt, or of `attempt`, in pieces.

        `follow`: continue with later attempts until the task has ended, or until `attempt` has ended.
        """
        path = f"{task_path(job_name, trigger, step_name, index)}/logs"

        def page(offset: int, number: int | None) -> LogPage:
            query = {"stream": stream, "offset": offset, "attempt": number}
            return read(LogPage, self._http.get(path, query))

        if follow and attempt:
            return follow_attempt(page, attempt)
        if follow:
            return follow_log(lambda: self.task(job_name, trigger, step_name, index), page)
        return read_log(page, attempt)
