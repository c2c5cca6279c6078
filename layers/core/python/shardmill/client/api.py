"""The Python SDK: Shardmill's HTTP API as methods, with the same models as the server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from shardmill.client.connection import connection
from shardmill.client.documents import load_document
from shardmill.client.errors import BadAnswer, Invalid, NotFound
from shardmill.client.follow import LogPage, follow_attempt, follow_log, read_log, wait_for
from shardmill.client.http import Http
from shardmill.client.paths import job_path, looks_like_an_id, step_path, task_path, word, worker_path
from shardmill.client.trigger import new_trigger
from shardmill.model.base import Answer, Time
from shardmill.model.definition import Info, JobDefine, ListedDefine, SavedDefine, StepType
from shardmill.model.fault import Fault, fault
from shardmill.model.job import Job, Step, Task
from shardmill.model.states import JobState, TaskState
from shardmill.model.worker import GroupKind, Worker, WorkerGroup, WorkerStatus

if TYPE_CHECKING:
    import httpx

Document = Mapping[str, Any] | JobDefine | str | Path
Stream = Literal["stdout", "stderr"]
T = TypeVar("T", bound=Answer)

PAGE = 200
ACCEPTED = 202
_TIME: TypeAdapter[datetime] = TypeAdapter(Time)


class Verdict(Answer):
    """What validation found."""

    valid: bool
    faults: list[Fault]


class Submitted(Job):
    """The Job that was asked for; `new`: whether it was not there before."""

    new: bool = Field(exclude=True)


class Client:
    """One Shardmill: at `url`, else SHARDMILL_URL, else the running `shardmill dev`.

    Every refusal is a `ShardmillError`. Reading and submitting are tried again when the connection or the
    server fails; what changes something else is not.
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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    @property
    def calls(self) -> int:
        """How many requests were sent."""
        return self._http.calls

    # definitions

    def define(self, document: Document, *, expected: int | None = None) -> SavedDefine:
        """Save a definition: a document, a JobDefine, or the path of a JSON or YAML file.

        `expected`: refuse unless the newest version is this one; 0: unless there is none.
        """
        content = _document(document)
        job_name = content.get("jobName") if isinstance(content, dict) else None
        if not isinstance(job_name, str):
            faults = [fault(("jobName",), "missing-field", "is required")]
            raise Invalid("the definition has no name", code="invalid-definition", faults=faults)
        path = f"/v1/definitions/{word(job_name, 'jobName')}"
        return _read(
            SavedDefine, self._http.send("PUT", path, document=content, headers=_precondition(expected))
        )

    def validate(self, document: Document) -> list[Fault]:
        """Everything that is wrong with a definition; nothing is saved."""
        answer = self._http.send("POST", "/v1/definitions:validate", document=_document(document), again=True)
        return _read(Verdict, answer).faults

    def definitions(self) -> Iterator[ListedDefine]:
        """Every definition, by name, without its steps."""
        return self._list(ListedDefine, "/v1/definitions")

    def versions(self, job_name: str) -> Iterator[ListedDefine]:
        """Every version of a definition, newest first, without its steps."""
        return self._list(ListedDefine, f"/v1/definitions/{word(job_name, 'jobName')}/versions")

    def definition(self, job_name: str, version: int | None = None) -> SavedDefine:
        """A definition, in its newest version unless another is asked for."""
        path = f"/v1/definitions/{word(job_name, 'jobName')}"
        return _read(SavedDefine, self._http.get(path, {"version": version}))

    def delete_definition(self, job_name: str, *, expected: int | None = None) -> None:
        path = f"/v1/definitions/{word(job_name, 'jobName')}"
        self._http.send("DELETE", path, headers=_precondition(expected))

    # jobs

    def submit(
        self,
        job_name: str,
        trigger: str | None = None,
        params: Mapping[str, Any] | None = None,
        steps: Mapping[str, Mapping[str, Any]] | None = None,
        data_time: datetime | str | None = None,
        *,
        priority: int | None = None,
        execute_user: str | None = None,
        info: Info | None = None,
    ) -> Submitted:
        """Ask for a run; asking again with the same trigger and content gives the same Job.

        `steps`: parameters for steps, by their names. A missing trigger is the present time.
        """
        trigger = new_trigger() if trigger is None else trigger
        job_path(job_name, trigger)
        given = {
            "jobName": job_name,
            "trigger": trigger,
            "params": dict(params) if params else None,
            "steps": [{"stepName": name, "params": dict(values)} for name, values in (steps or {}).items()]
            or None,
            "dataTime": None if data_time is None else _time_text(data_time),
            "priority": priority,
            "executeUser": execute_user,
            "info": info and info.model_dump(mode="json", exclude_unset=True),
        }
        request = {name: value for name, value in given.items() if value is not None}
        status, answer = self._http.exchange("POST", "/v1/jobs", document=request, again=True)
        return _read(Submitted, {**answer, "new": status == ACCEPTED} if isinstance(answer, dict) else answer)

    def job(self, job_name: str, trigger: str) -> Job:
        return _read(Job, self._http.get(job_path(job_name, trigger)))

    def jobs(
        self,
        job_name: str | None = None,
        state: JobState | None = None,
        submit_user: str | None = None,
        *,
        page: int = PAGE,
    ) -> Iterator[Job]:
        """Jobs, newest first, without their steps; read `page` at a time."""
        query = {"jobName": job_name, "state": state and state.value, "submitUser": submit_user}
        return self._list(Job, "/v1/jobs", query, page)

    def wait(
        self,
        job_name: str,
        trigger: str,
        timeout: float | None = None,
        on_update: Callable[[Job], None] | None = None,
    ) -> Job:
        """The Job when it is over: ended, or suspended by a failure (`onFailure: suspend`).

        `on_update` is called after every look at the Job. Raises `WaitTimedOut` after `timeout` seconds.
        """
        return wait_for(lambda: self.job(job_name, trigger), timeout, on_update)

    def set_priority(self, job_name: str, trigger: str, priority: int) -> Job:
        """Change how soon the tasks of a Job go out, of those that are still queued too."""
        path = f"{job_path(job_name, trigger)}:priority"
        return _read(Job, self._http.send("POST", path, document={"priority": priority}))

    def steps(self, job_name: str, trigger: str) -> list[Step]:
        return self.job(job_name, trigger).steps

    def step(self, job_name: str, trigger: str, step_name: str) -> Step:
        """A step with the states of its tasks, if they are a thousand at most."""
        return _read(Step, self._http.get(step_path(job_name, trigger, step_name)))

    def tasks(
        self,
        job_name: str,
        trigger: str,
        step_name: str,
        state: TaskState | None = None,
        *,
        page: int = PAGE,
    ) -> Iterator[Task]:
        """Every task of a step, in the order of their index."""
        path = f"{step_path(job_name, trigger, step_name)}/tasks"
        return self._list(Task, path, {"state": state and state.value}, page)

    def some_tasks(
        self, job_name: str, trigger: str, step_name: str, state: TaskState, most: int
    ) -> list[Task]:
        """A few tasks of a step in that state: those that one look finds."""
        path = f"{step_path(job_name, trigger, step_name)}/tasks"
        return self._page(Task, path, {"state": state.value, "limit": most})[0]

    def task(self, job_name: str, trigger: str, step_name: str, index: int) -> Task:
        """A task with its attempts and the last of its output."""
        return _read(Task, self._http.get(task_path(job_name, trigger, step_name, index)))

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
        """The output of a task's last attempt, or of the one named, in pieces.

        `follow`: of that and those that come, until the task has ended; of the one named, until it has.
        """
        path = f"{task_path(job_name, trigger, step_name, index)}/logs"

        def page(offset: int, number: int | None) -> LogPage:
            query = {"stream": stream, "offset": offset, "attempt": number}
            return _read(LogPage, self._http.get(path, query))

        if follow and attempt:
            return follow_attempt(page, attempt)
        if follow:
            return follow_log(lambda: self.task(job_name, trigger, step_name, index), page)
        return read_log(page, attempt)

    # groups and workers

    def groups(self) -> Iterator[WorkerGroup]:
        return self._list(WorkerGroup, "/v1/groups")

    def group(self, name: str) -> WorkerGroup:
        return _read(WorkerGroup, self._http.get(f"/v1/groups/{word(name, 'name')}"))

    def create_group(
        self,
        name: str,
        *,
        kind: GroupKind | None = None,
        lease_seconds: int | None = None,
        types: list[StepType] | None = None,
    ) -> WorkerGroup:
        """Make a worker group with its queues, or change the one of this name; what is None stays as it is.

        `types`: the step types whose tasks go to it where a step names no group.
        """
        given = {"kind": kind, "leaseSeconds": lease_seconds, "types": types}
        document = {field: value for field, value in given.items() if value is not None}
        return _read(
            WorkerGroup, self._http.send("PUT", f"/v1/groups/{word(name, 'name')}", document=document)
        )

    def delete_group(self, name: str, *, force: bool = False) -> None:
        """`force`: even while Jobs need it."""
        self._http.send("DELETE", f"/v1/groups/{word(name, 'name')}", query=_forced(force))

    def workers(
        self,
        group: str | None = None,
        status: WorkerStatus | None = None,
        *,
        busy: bool | None = None,
        app: str | None = None,
    ) -> Iterator[Worker]:
        """Workers that have registered; `app`: those that can run this command."""
        query = {
            "group": group,
            "status": None if status is None else int(status),
            "busy": None if busy is None else str(busy).lower(),
            "app": app,
        }
        return self._list(Worker, "/v1/workers", query)

    def worker(self, worker_id: str) -> Worker:
        return _read(Worker, self._http.get(worker_path(worker_id)))

    def find_worker(self, name: str) -> Worker:
        """A worker by its name or its id."""
        if looks_like_an_id(name):
            with suppress(NotFound):  # then it is a name
                return self.worker(name)
        found = next((worker for worker in self.workers() if name in (worker.name, worker.id)), None)
        if not found:
            raise NotFound(f"there is no worker {name!r}", code="worker-not-found", status=404)
        return found

    def drain_worker(self, worker_id: str, reason: str | None = None) -> Worker:
        """Let a worker finish what it holds, take nothing new, and leave."""
        return self._change_worker(worker_id, "drain", reason)

    def suspend_worker(self, worker_id: str, reason: str | None = None) -> Worker:
        """Let a worker take nothing new until it is resumed."""
        return self._change_worker(worker_id, "suspend", reason)

    def resume_worker(self, worker_id: str) -> Worker:
        """Let a worker take tasks again, whoever or whatever stopped it."""
        return self._change_worker(worker_id, "resume")

    def _change_worker(self, worker_id: str, verb: str, reason: str | None = None) -> Worker:
        document = {} if reason is None else {"reason": reason}
        return _read(Worker, self._http.send("POST", f"{worker_path(worker_id)}:{verb}", document=document))

    def forget_worker(self, worker_id: str, *, force: bool = False) -> None:
        """Remove a worker that is gone; `force`: even if it is not."""
        self._http.send("DELETE", worker_path(worker_id), query=_forced(force))

    def _list(
        self, model: type[T], path: str, query: Mapping[str, Any] | None = None, page: int = PAGE
    ) -> Iterator[T]:
        cursor: str | None = None
        while True:
            items, cursor = self._page(model, path, {**(query or {}), "limit": page, "cursor": cursor})
            yield from items
            if not cursor:
                return

    def _page(self, model: type[T], path: str, query: Mapping[str, Any]) -> tuple[list[T], str | None]:
        answer = self._http.get(path, query)
        if not isinstance(answer, dict) or not isinstance(answer.get("items"), list):
            raise BadAnswer(f"the answer of GET {path} is not a list")
        return [_read(model, item) for item in answer["items"]], answer.get("cursor")


def _read(model: type[T], answer: Any) -> T:
    try:
        return model.model_validate(answer)
    except ValidationError as error:
        place = ".".join(str(part) for part in error.errors(include_input=False)[0]["loc"])
        raise BadAnswer(
            f"the answer is not a {model.__name__} as this version knows it"
            + (f" (see {place})" if place else "")
        ) from error


def _document(document: Document) -> Any:
    if isinstance(document, (str, Path)):
        return load_document(document)
    if isinstance(document, JobDefine):
        return document.model_dump(
            mode="json", exclude_unset=True, exclude_none=True, exclude_computed_fields=True
        )
    return document


def _forced(force: bool) -> dict[str, str]:
    return {"force": "true"} if force else {}


def _precondition(expected: int | None) -> dict[str, str]:
    if expected is None:
        return {}
    return {"if-match": f'"v{expected}"'} if expected else {"if-none-match": "*"}


def _time_text(moment: datetime | str) -> str:
    try:
        return _TIME.dump_python(_TIME.validate_python(moment), mode="json")  # type: ignore[no-any-return]
    except ValidationError as error:
        faults = [fault(("dataTime",), "bad-time", error.errors()[0]["msg"])]
        raise Invalid("the request is not valid", code="invalid-request", faults=faults) from None
