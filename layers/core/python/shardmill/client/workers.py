"""Worker groups and workers, as methods of the Client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from shardmill.client.calls import Calls, group_path, may_be_worker_id, read, worker_path
from shardmill.client.errors import NotFound
from shardmill.model.definition.field_types import StepType
from shardmill.model.groups.group import GroupKind, WorkerGroup
from shardmill.model.worker import Worker, WorkerStatus


class WorkerCalls(Calls):
    def groups(self) -> Iterator[WorkerGroup]:
        return self._list(WorkerGroup, "/v1/groups")

    def group(self, name: str) -> WorkerGroup:
        return read(WorkerGroup, self._http.get(group_path(name)))

    def create_group(
        self,
        name: str,
        *,
        kind: GroupKind | None = None,
        lease_seconds: int | None = None,
        types: list[StepType] | None = None,
    ) -> WorkerGroup:
        """Create a worker group with its queues, or update it; arguments that are None change nothing.

        `types`: the step types whose tasks go to this group if their step names no group.
        """
        given = {"kind": kind, "leaseSeconds": lease_seconds, "types": types}
        document = {field: value for field, value in given.items() if value is not None}
        return read(WorkerGroup, self._http.send("PUT", group_path(name), document=document))

    def delete_group(self, name: str, *, force: bool = False) -> None:
        """Delete a worker group; `force`: even if Jobs need it."""
        self._http.send("DELETE", group_path(name), query=_forced(force))

    def workers(
        self,
        group: str | None = None,
        status: WorkerStatus | None = None,
        *,
        busy: bool | None = None,
        app: str | None = None,
    ) -> Iterator[Worker]:
        """The registered workers; `app`: only workers that can run this command."""
        query = {
            "group": group,
            "status": None if status is None else int(status),
            "busy": None if busy is None else str(busy).lower(),
            "app": app,
        }
        return self._list(Worker, "/v1/workers", query)

    def worker(self, worker_id: str) -> Worker:
        return read(Worker, self._http.get(worker_path(worker_id)))

    def find_worker(self, name: str) -> Worker:
        """A worker by its name or its id."""
        if may_be_worker_id(name):
            with suppress(NotFound):  # try it as a name
                return self.worker(name)
        found = next((worker for worker in self.workers() if name in (worker.name, worker.id)), None)
        if not found:
            raise NotFound(f"there is no worker {name!r}", code="worker-not-found", status=404)
        return found

    def drain_worker(self, worker_id: str, reason: str | None = None) -> Worker:
        """Let a worker finish its tasks, lease no more, and exit."""
        return self._change_worker(worker_id, "drain", reason)

    def suspend_worker(self, worker_id: str, reason: str | None = None) -> Worker:
        """Let a worker lease no more tasks until it is resumed."""
        return self._change_worker(worker_id, "suspend", reason)

    def resume_worker(self, worker_id: str) -> Worker:
        """Let a suspended worker lease tasks again."""
        return self._change_worker(worker_id, "resume")

    def _change_worker(self, worker_id: str, verb: str, reason: str | None = None) -> Worker:
        document = {} if reason is None else {"reason": reason}
        return read(Worker, self._http.send("POST", f"{worker_path(worker_id)}:{verb}", document=document))

    def forget_worker(self, worker_id: str, *, force: bool = False) -> None:
        """Remove a worker that is offline; `force`: even if it is not."""
        self._http.send("DELETE", worker_path(worker_id), query=_forced(force))


def _forced(force: bool) -> dict[str, str]:
    return {"force": "true"} if force else {}
