"""What people suspend beside Jobs and workers, as methods of the Client: definitions, groups, everything."""

from __future__ import annotations

from typing import Any

from shardmill.client.calls import Calls, read
from shardmill.client.paths import word
from shardmill.model.definition import SavedDefine
from shardmill.model.worker import WorkerGroup


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
