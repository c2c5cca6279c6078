"""Workers as people see them."""

from __future__ import annotations

from shardmill.engine.mill import Mill
from shardmill.engine.workers import BEATS_PER_LEASE, heartbeat_seconds
from shardmill.model.base import from_ms
from shardmill.model.worker import Worker, WorkerStatus
from shardmill.store.rows import WorkerRow


def worker_view(mill: Mill, worker: WorkerRow, now: int) -> Worker:
    beat = heartbeat_seconds(mill, worker, now)
    status = WorkerStatus.ONLINE
    if worker.offline:
        status = WorkerStatus.DRAINING if worker.work else WorkerStatus.OFFLINE
    elif now - worker.seen > beat * BEATS_PER_LEASE * 1000:
        status = WorkerStatus.DISCONNECTED
    return Worker.model_validate(
        {
            **worker.registration,
            "id": worker.id,
            "session": worker.session,
            "status": status,
            "activity": "busy" if worker.work else "idle",
            "heartbeatSeconds": beat,
            "createTime": from_ms(worker.create_time),
            "updateTime": from_ms(worker.seen),
            "serveTime": (worker.seen - worker.create_time) // 1000,
            "remainTasks": len(worker.work),
            "currentWork": worker.work,
        }
    )
