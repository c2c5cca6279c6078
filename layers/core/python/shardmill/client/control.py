"""Control of Jobs, definitions and groups, as methods of the Client."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from shardmill.client.calls import (
    MAX_BATCH_BYTES,
    Calls,
    batches,
    definition_path,
    group_path,
    job_path,
    read,
)
from shardmill.model.control.effect import MAX_JOBS, DryRunAnswer, DryRunItem
from shardmill.model.definition.answers import SavedDefine
from shardmill.model.groups.group import WorkerGroup
from shardmill.model.job import Explanation, Job, Transition

T = TypeVar("T")


class Actions(ABC, Generic[T]):
    """The control actions on a Job; `T` is their return type."""

    def suspend(self, job_name: str, trigger: str, reason: str = "", let_finish: bool = False) -> T:
        """Suspend a Job. Its running tasks are stopped, or may finish with `let_finish`."""
        fields = {"reason": reason or None, "letFinish": let_finish}
        return self._act(job_name, trigger, "suspend", fields, idempotent=True)

    def resume(self, job_name: str, trigger: str, reason: str = "") -> T:
        """Resume a suspended Job; tasks that succeeded are kept.

        If it was suspended by a failure (`onFailure: suspend`), a new run repeats what failed.
        """
        return self._act(job_name, trigger, "resume", {"reason": reason or None}, idempotent=True)

    def start(self, job_name: str, trigger: str, reason: str = "") -> T:
        """Start a Job that waits for other Jobs without them."""
        return self._act(job_name, trigger, "start", {"reason": reason or None}, idempotent=True)

    def kill(
        self, job_name: str, trigger: str, reason: str = "", step: str | None = None, index: int | None = None
    ) -> T:
        """Kill a Job, a step or a task; the returned Job has steps only if a step was named."""
        fields = {"reason": reason or None, "stepName": step, "index": index}
        return self._act(job_name, trigger, "kill", fields, idempotent=True)

    def rerun(
        self,
        job_name: str,
        trigger: str,
        *,
        everything: bool = False,
        steps: Sequence[str] = (),
        shards: Sequence[int] = (),
        dependents: bool = False,
        params: Mapping[str, Any] | None = None,
        reason: str = "",
    ) -> T:
        """Start a new run of a Job that has ended or is suspended; all other results are kept.

        By default, repeats what failed. Otherwise `everything`, some `steps`, or some `shards` of one step.
        `dependents`: also rerun the Jobs of the same dataTime that depend on it; see the method `dependents`.
        `params`: new values of parameters, for this run and later ones.
        """
        fields = {
            "reason": reason or None,
            "scope": "all" if everything else None,
            "steps": list(steps) or None,
            "shards": list(shards) or None,
            "dependents": dependents or None,
            "params": dict(params) if params else None,
        }
        return self._act(job_name, trigger, "rerun", fields)

    def recompute(self, job_name: str, trigger: str, step: str, reason: str = "") -> T:
        """Start a new run of a step and of all steps downstream of it."""
        return self._act(job_name, trigger, "recompute", {"reason": reason or None, "stepName": step})

    def force(
        self,
        job_name: str,
        trigger: str,
        state: str,
        reason: str = "",
        step: str | None = None,
        index: int | None = None,
    ) -> T:
        """Set the state of a Job, a step or a task to SUCCESS or FAILED."""
        fields = {"state": state, "reason": reason or None, "stepName": step, "index": index}
        return self._act(job_name, trigger, "force", fields, idempotent=True)

    def delete_job(self, job_name: str, trigger: str, *, full: bool = False) -> T | None:
        """Delete a Job, which is killed if it runs; `full`: also delete its rows, files and logs."""
        return self._act(job_name, trigger, "delete", {"full": full or None})

    def set_priority(self, job_name: str, trigger: str, priority: int, reason: str = "") -> T:
        """Change the priority of a Job, including its queued tasks."""
        return self._act(job_name, trigger, "priority", {"priority": priority, "reason": reason or None})

    def set_groups(
        self,
        job_name: str,
        trigger: str,
        worker_groups: Sequence[str],
        step: str | None = None,
        reason: str = "",
    ) -> T:
        """Move a Job, or one of its steps, to other worker groups, including its queued tasks."""
        fields = {"workerGroups": list(worker_groups), "stepName": step, "reason": reason or None}
        return self._act(job_name, trigger, "group", fields)

    def change(
        self,
        job_name: str,
        trigger: str,
        *,
        step: str | None = None,
        priority: int | None = None,
        worker_groups: Sequence[str] | None = None,
        max_task_count: int | None = None,
        failed_retries: int | None = None,
        timeout_seconds: int | None = None,
        reason: str = "",
    ) -> T:
        """Change settings of a Job or of one of its steps; arguments that are None change nothing.

        The changes apply to tasks that are not leased yet, and to later runs.
        """
        fields = {
            "stepName": step,
            "priority": priority,
            "workerGroups": None if worker_groups is None else list(worker_groups),
            "maxTaskCount": max_task_count,
            "failedRetries": failed_retries,
            "timeoutSeconds": timeout_seconds,
            "reason": reason or None,
        }
        return self._act(job_name, trigger, "change", fields)

    @abstractmethod
    def _act(
        self, job_name: str, trigger: str, verb: str, fields: Mapping[str, Any], *, idempotent: bool = False
    ) -> T:
        """Perform an action of this name with the fields of its body that are not None."""


@dataclass(frozen=True, slots=True)
class ActionRequest:
    """An action and its body, as a dry run takes them."""

    action: str
    body: dict[str, Any]


class ActionRequests(Actions[ActionRequest]):
    """Returns the requests of actions without sending them."""

    def _act(
        self, job_name: str, trigger: str, verb: str, fields: Mapping[str, Any], *, idempotent: bool = False
    ) -> ActionRequest:
        del job_name, trigger, idempotent  # the same request is tried on many Jobs
        return ActionRequest(verb, _given(fields))


class ControlCalls(Actions[Job], Calls):
    def delete_job(self, job_name: str, trigger: str, *, full: bool = False) -> None:
        """Delete a Job, which is killed if it runs; `full`: also delete its rows, files and logs."""
        self._http.send("DELETE", job_path(job_name, trigger), query={"full": "true"} if full else {})

    def dry_run(self, request: ActionRequest, jobs: Iterable[tuple[str, str]]) -> Iterator[DryRunItem]:
        """The effect that an action would have on Jobs, given by name and trigger; nothing is changed.

        `request`: for example `ActionRequests().kill("", "")`.
        """
        named = ({"jobName": job_name, "trigger": trigger} for job_name, trigger in jobs)
        for batch in batches(named, MAX_JOBS, MAX_BATCH_BYTES):
            document = {"action": request.action, "jobs": batch, "request": request.body}
            answer = self._http.send("POST", "/v1/jobs:dry-run", document=document, idempotent=True)
            yield from read(DryRunAnswer, answer).items

    def dependents(self, job_name: str, trigger: str) -> list[Job]:
        """The Jobs that a rerun with `dependents` runs again after this one, in their order."""
        return self._page(Job, f"{job_path(job_name, trigger)}/dependents", {})[0]

    def explain(self, job_name: str, trigger: str) -> Explanation:
        """Why a Job has not ended, or why it ended as it did."""
        return read(Explanation, self._http.send("GET", f"{job_path(job_name, trigger)}:explain"))

    def history(self, job_name: str, trigger: str) -> list[Transition]:
        """All state transitions of a Job and its steps, in all runs, in order."""
        return list(self._list(Transition, f"{job_path(job_name, trigger)}/history"))

    def _act(
        self, job_name: str, trigger: str, verb: str, fields: Mapping[str, Any], *, idempotent: bool = False
    ) -> Job:
        path = f"{job_path(job_name, trigger)}:{verb}"
        return read(Job, self._http.send("POST", path, document=_given(fields), idempotent=idempotent))


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {field: value for field, value in fields.items() if value is not None}


class SuspensionCalls(Calls):
    def suspend_definition(self, job_name: str, reason: str = "") -> SavedDefine:
        """Start no new Jobs of a definition; running Jobs continue, and schedules wait."""
        return read(SavedDefine, self._suspend_or_resume(definition_path(job_name), "suspend", reason))

    def resume_definition(self, job_name: str, reason: str = "") -> SavedDefine:
        """Start Jobs of a definition again; its schedules handle missed times according to catchUp."""
        return read(SavedDefine, self._suspend_or_resume(definition_path(job_name), "resume", reason))

    def suspend_group(self, name: str, reason: str = "") -> WorkerGroup:
        """Lease no tasks of a group; running tasks continue."""
        return read(WorkerGroup, self._suspend_or_resume(group_path(name), "suspend", reason))

    def resume_group(self, name: str, reason: str = "") -> WorkerGroup:
        """Lease tasks of a group again."""
        return read(WorkerGroup, self._suspend_or_resume(group_path(name), "resume", reason))

    def suspend_all_groups(self, reason: str = "") -> None:
        """Lease no tasks in any group, including groups that are created later."""
        self._suspend_or_resume("/v1/groups", "suspend", reason)

    def resume_all_groups(self, reason: str = "") -> None:
        """Lease tasks again, except in groups that were suspended individually."""
        self._suspend_or_resume("/v1/groups", "resume", reason)

    def _suspend_or_resume(self, path: str, verb: str, reason: str) -> Any:
        document = {"reason": reason} if reason else {}
        return self._http.send("POST", f"{path}:{verb}", document=document, idempotent=True)
