"""What people do to Jobs, as methods of the Client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shardmill.client.requests import Calls, job_path, read, word
from shardmill.model.definition.fields import SavedDefine
from shardmill.model.job import Explanation, Job, Transition
from shardmill.model.worker import WorkerGroup


class ControlCalls(Calls):
    def suspend(self, job_name: str, trigger: str, reason: str = "", let_finish: bool = False) -> Job:
        """Park a Job. Its running tasks are told to stop, or may finish."""
        wish = {"reason": reason or None, "letFinish": let_finish}
        return self._act(job_name, trigger, "suspend", wish, again=True)

    def resume(self, job_name: str, trigger: str, reason: str = "") -> Job:
        """Let a suspended Job go on; what succeeded is kept.

        One that its own failure suspended (`onFailure: suspend`) gets a new run of what failed.
        """
        return self._act(job_name, trigger, "resume", {"reason": reason or None}, again=True)

    def kill(
        self, job_name: str, trigger: str, reason: str = "", step: str | None = None, index: int | None = None
    ) -> Job:
        """End a Job, or one of its steps, or one task of a step; that of a Job has no steps in its answer."""
        wish = {"reason": reason or None, "stepName": step, "index": index}
        return self._act(job_name, trigger, "kill", wish, again=True)

    def rerun(
        self,
        job_name: str,
        trigger: str,
        *,
        everything: bool = False,
        steps: Sequence[str] = (),
        shards: Sequence[int] = (),
        reason: str = "",
    ) -> Job:
        """Begin a new run of a Job that has ended or is suspended, in which the rest is kept.

        What failed runs again; or everything; or `steps`; or of one step its tasks with the indexes `shards`.
        """
        wish = {
            "reason": reason or None,
            "scope": "all" if everything else None,
            "steps": list(steps) or None,
            "shards": list(shards) or None,
        }
        return self._act(job_name, trigger, "rerun", wish)

    def recompute(self, job_name: str, trigger: str, step: str, reason: str = "") -> Job:
        """Begin a new run of a step and of everything downstream of it."""
        return self._act(job_name, trigger, "recompute", {"reason": reason or None, "stepName": step})

    def force(
        self,
        job_name: str,
        trigger: str,
        state: str,
        reason: str = "",
        step: str | None = None,
        index: int | None = None,
    ) -> Job:
        """Force a Job, or one of its steps, or one task of a step, to be SUCCESS or FAILED."""
        wish = {"state": state, "reason": reason or None, "stepName": step, "index": index}
        return self._act(job_name, trigger, "force", wish, again=True)

    def delete_job(self, job_name: str, trigger: str, *, full: bool = False) -> None:
        """Delete a Job, killing it first if it runs; `full`: with its rows, files and logs."""
        self._http.send("DELETE", job_path(job_name, trigger), query={"full": "true"} if full else {})

    def explain(self, job_name: str, trigger: str) -> Explanation:
        """Why a Job is not finished, or how it came to its end."""
        return read(Explanation, self._http.send("GET", f"{job_path(job_name, trigger)}:explain"))

    def set_priority(self, job_name: str, trigger: str, priority: int, reason: str = "") -> Job:
        """Change how soon the tasks of a Job go out, of those that are still queued too."""
        return self._act(job_name, trigger, "priority", {"priority": priority, "reason": reason or None})

    def set_groups(
        self,
        job_name: str,
        trigger: str,
        worker_groups: Sequence[str],
        step: str | None = None,
        reason: str = "",
    ) -> Job:
        """Give a Job, or one of its steps, other worker groups; tasks that wait move there at once."""
        wish = {"workerGroups": list(worker_groups), "stepName": step, "reason": reason or None}
        return self._act(job_name, trigger, "group", wish)

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
    ) -> Job:
        """Change what is given, of all steps of a Job or of one; what is None stays as it is.

        It holds for tasks that are not leased yet, and for later runs.
        """
        wish = {
            "stepName": step,
            "priority": priority,
            "workerGroups": None if worker_groups is None else list(worker_groups),
            "maxTaskCount": max_task_count,
            "failedRetries": failed_retries,
            "timeoutSeconds": timeout_seconds,
            "reason": reason or None,
        }
        return self._act(job_name, trigger, "change", wish)

    def history(self, job_name: str, trigger: str) -> list[Transition]:
        """Every transition of a Job and its steps, of all its runs, in order."""
        return self._page(Transition, f"{job_path(job_name, trigger)}/history", {})[0]

    def _act(
        self, job_name: str, trigger: str, verb: str, wish: Mapping[str, Any], *, again: bool = False
    ) -> Job:
        """`again`: the same again changes nothing."""
        document = {field: value for field, value in wish.items() if value is not None}
        path = f"{job_path(job_name, trigger)}:{verb}"
        return read(Job, self._http.send("POST", path, document=document, again=again))


class HoldCalls(Calls):
    def suspend_definition(self, job_name: str, reason: str = "") -> SavedDefine:
        """Let no new Jobs of a definition start; those that run go on, and schedules wait."""
        return read(SavedDefine, self._hold(_definition(job_name), "suspend", reason))

    def resume_definition(self, job_name: str, reason: str = "") -> SavedDefine:
        """Let Jobs of a definition start again; schedules deal with what they missed as catchUp says."""
        return read(SavedDefine, self._hold(_definition(job_name), "resume", reason))

    def suspend_group(self, name: str, reason: str = "") -> WorkerGroup:
        """Let nobody take tasks of a group; those that run go on to their end."""
        return read(WorkerGroup, self._hold(_group(name), "suspend", reason))

    def resume_group(self, name: str, reason: str = "") -> WorkerGroup:
        """Let tasks of a group be taken again."""
        return read(WorkerGroup, self._hold(_group(name), "resume", reason))

    def suspend_all_groups(self, reason: str = "") -> None:
        """Let nobody take any task, also in groups that are made later."""
        self._hold("/v1/groups", "suspend", reason)

    def resume_all_groups(self, reason: str = "") -> None:
        """Let tasks be taken again; a group that was suspended by itself stays so."""
        self._hold("/v1/groups", "resume", reason)

    def _hold(self, path: str, verb: str, reason: str) -> Any:
        document = {"reason": reason} if reason else {}
        return self._http.send("POST", f"{path}:{verb}", document=document, again=True)


def _definition(job_name: str) -> str:
    return f"/v1/definitions/{word(job_name, 'jobName')}"


def _group(name: str) -> str:
    return f"/v1/groups/{word(name, 'name')}"
