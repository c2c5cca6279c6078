"""Workers as the API shows them, and the answers to their heartbeats."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from shardmill.engine.groups.matching import group_rows, suspension_reasons
from shardmill.engine.mill import Mill
from shardmill.engine.workers.addresses import new_addresses
from shardmill.engine.workers.registry import Heartbeat, heartbeat_seconds, is_alive
from shardmill.model.timestamps import from_ms
from shardmill.model.worker import GroupBinding, HeartbeatAnswer, RegisteredWorker, Worker, WorkerStatus
from shardmill.store.rows import WorkerRow


def worker_view(mill: Mill, worker: WorkerRow, now: int) -> Worker:
    status = _status(mill, worker, now)
    # A disconnected worker's row still lists what it held; the leases have expired with its heartbeats.
    held = set() if status is WorkerStatus.DISCONNECTED else worker.work
    alive = status in (WorkerStatus.ONLINE, WorkerStatus.DRAINING)
    return Worker.model_validate(
        {
            **worker.registration,
            "id": worker.id,
            "bindings": _bindings(worker),
            "ip": worker.registration.get("ip") or worker.source_ip or None,
            "sourceIp": worker.source_ip or None,
            "owner": worker.owner or None,
            "session": worker.session,
            "status": status,
            "activity": "suspended" if worker.suspended or worker.tired else "busy" if held else "idle",
            "notes": worker.notes or worker.tired,
            "heartbeatSeconds": heartbeat_seconds(mill, worker, now),
            "createTime": from_ms(worker.create_time),
            "updateTime": from_ms(worker.seen),
            "serveTime": ((now if alive else worker.seen) - worker.create_time) // 1000,
            "idleTime": 0 if held else max(0, now - worker.last_busy) // 1000,
            "remainTasks": len(held),
            "currentWork": sorted(_running(worker, held)),
            "skipWork": sorted(worker.skip),
            "totalCheckout": worker.checkout,
            "totalCompleted": worker.completed,
            "totalFailed": worker.failed,
            "computeTime": worker.compute_ms / 1000,
        }
    )


def _bindings(worker: WorkerRow) -> list[GroupBinding]:
    times = {name: worker.bound.get(name, (worker.create_time, worker.create_time)) for name in worker.groups}
    return [
        GroupBinding(group=name, create_time=from_ms(created), update_time=from_ms(updated))
        for name, (created, updated) in times.items()
    ]


def _running(worker: WorkerRow, held: AbstractSet[str]) -> list[str]:
    """Return the tasks that a worker runs, as many as it has slots; its other tasks wait.

    Tasks that had started at its last heartbeat come first; later starts are not known.
    """
    return sorted(held, key=lambda task: (task not in worker.running, task))[: worker.slots]


def _status(mill: Mill, worker: WorkerRow, now: int) -> WorkerStatus:
    if worker.offline and not worker.work:
        return WorkerStatus.OFFLINE
    if not is_alive(mill, worker, now):
        return WorkerStatus.DISCONNECTED
    return WorkerStatus.DRAINING if worker.offline or worker.drain else WorkerStatus.ONLINE


def _why_suspended(mill: Mill, worker: WorkerRow, now: int) -> str:
    """Return why a worker, or all its groups, are suspended and how to resume; empty if they are not."""
    if worker.suspended or worker.tired:
        return f"{worker.notes or worker.tired}; resume it with `shardmill workers resume {worker.name}`"
    rows = group_rows(mill, worker.groups, now)
    if rows and all(row.suspended for row in rows.values()):
        return f"{suspension_reasons(rows)}; resume one of them to give it tasks again"
    return ""


def registered_view(mill: Mill, worker: WorkerRow, now: int) -> RegisteredWorker:
    """The answer to a registration: the worker, with the addresses at which it waits for tasks."""
    lanes = new_addresses(mill, worker, "", now)
    return RegisteredWorker(**dict(worker_view(mill, worker, now)), lanes=lanes)


def heartbeat_answer(mill: Mill, beat: Heartbeat, now: int, *, tag: str | None = None) -> HeartbeatAnswer:
    """`tag`: of the worker's addresses; None if it uses none."""
    worker = beat.worker
    why = _why_suspended(mill, worker, now)
    return HeartbeatAnswer(
        drop=beat.drop,
        followed=beat.followed,
        status=_status(mill, worker, now),
        suspended=bool(why),
        notes=why or None,
        drain=worker.drain,
        heartbeat_seconds=heartbeat_seconds(mill, worker, now),
        lanes=None if tag is None or worker.offline else new_addresses(mill, worker, tag, now),
    )
