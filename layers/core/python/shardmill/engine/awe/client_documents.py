"""Clients as documents of the AWE protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shardmill.engine.awe.lookup import work_ids
from shardmill.engine.mill import Mill
from shardmill.engine.views.workers import worker_view
from shardmill.model.awe.times import awe_time, serve_time
from shardmill.model.worker import Worker, WorkerStatus
from shardmill.store.rows import WorkerRow

IDLE, BUSY, SUSPENDED = "active-idle", "active-busy", "suspend"


def client_documents(mill: Mill, workers: list[WorkerRow], now: int) -> list[dict[str, Any]]:
    """Clients with the workunits that they hold and skip."""
    ids = work_ids(mill, {task for worker in workers for task in (*worker.work, *worker.skip)})
    return [_document(worker, worker_view(mill, worker, now), ids) for worker in workers]


def status_of(view: Worker) -> str:
    if view.activity == "suspended" or view.status in (WorkerStatus.OFFLINE, WorkerStatus.DISCONNECTED):
        return SUSPENDED
    return BUSY if view.activity == "busy" else IDLE


def _document(worker: WorkerRow, view: Worker, ids: Mapping[str, str]) -> dict[str, Any]:
    profile, status = worker.profile, status_of(view)
    held = {ids[task]: True for task in sorted(worker.work) if task in ids} if view.remain_tasks else {}
    return {
        "id": worker.name if profile else worker.id,
        "name": profile.get("name") or worker.name,
        "group": profile.get("group") or next(iter(worker.groups), ""),
        "user": view.user or view.owner or "",
        "domain": view.domain or "",
        "instance_id": view.instance_id or "",
        "instance_type": view.instance_type or "",
        "host": view.host or view.ip or "",
        "cores": view.cores,
        "apps": view.apps,
        "regtime": awe_time(worker.create_time),
        "serve_time": serve_time(view.serve_time),
        "idle_time": view.idle_time,
        "Status": status,
        "status": status,
        "online": view.status in (WorkerStatus.ONLINE, WorkerStatus.DRAINING),
        "busy": status == BUSY,
        "suspended": status == SUSPENDED,
        "suspend_reason": view.notes,
        "remaintasks": view.remain_tasks,
        "total_checkout": view.total_checkout,
        "total_completed": view.total_completed,
        "total_failed": view.total_failed,
        "last_failed": worker.failures,
        "computetime": int(view.compute_time),
        "current_work": held,
        "skip_work": sorted(ids[task] for task in worker.skip if task in ids),
        "proxy": view.proxy,
        "subclients": view.subclients,
    }
