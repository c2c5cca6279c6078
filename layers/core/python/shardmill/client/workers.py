"""Worker groups and workers, as methods of the Client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from shardmill.client.errors import NotFound
from shardmill.client.requests import Calls, looks_like_an_id, read, word, worker_path
from shardmill.model.definition.fields import StepType
from shardmill.model.worker import GroupKind, Worker, WorkerGroup, WorkerStatus


class WorkerCalls(Calls):
    def groups(self) -> Iterator[WorkerGroup]:
        return self._list(WorkerGroup, "/v1/groups")

    def group(self, name: str) -> WorkerGroup:
        return read(WorkerGroup, self._http.get(f"/v1/groups/{word(name, 'name')}"))

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
        return read(
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
        return read(Worker, self._http.get(worker_path(worker_id)))

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
        return read(Worker, self._http.send("POST", f"{worker_path(worker_id)}:{verb}", document=document))

    def forget_worker(self, worker_id: str, *, force: bool = False) -> None:
        """Remove a worker that is gone; `force`: even if it is not."""
        self._http.send("DELETE", worker_path(worker_id), query=_forced(force))


def _forced(force: bool) -> dict[str, str]:
    return {"force": "true"} if force else {}
