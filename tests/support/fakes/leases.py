"""Leases as a worker receives them."""

from typing import Any

from shardmill.model.worker import Lease, Result

JOB = "0190b8a2-0000-7000-8000-000000000001"


def a_lease(type: str = "shell", content: Any = None, *, rank: int = 7, **more: Any) -> Lease:
    return Lease.model_validate(
        {
            "taskId": f"{JOB}_0_{rank}",
            "attempt": 1,
            "receipt": "receipt",
            "jobName": "balance",
            "trigger": "t1",
            "jobId": JOB,
            "run": 1,
            "stepName": "main",
            "sharding": {"index": rank, "total": 12},
            "type": type,
            "content": content,
            "leaseSeconds": 60,
        }
        | more
    )


def a_command(name: str, **more: Any) -> Lease:
    return a_lease("command", command={"name": name, **more})


def failed_result(lease: Lease, reason: str) -> Result:
    """The result of a task that failed."""
    return Result(
        task_id=lease.task_id, attempt=lease.attempt, receipt=lease.receipt, outcome="failed", reason=reason
    )
