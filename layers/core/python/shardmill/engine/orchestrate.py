"""Dispatch the actions of the state machines to the engine."""

from __future__ import annotations

import json
from typing import Any

from shardmill.engine.continuation import Budget
from shardmill.engine.mill import Mill
from shardmill.engine.running import close_step, finish, open_step
from shardmill.engine.running.open_ahead import StepOpener
from shardmill.engine.tasks import messages


def act(mill: Mill, event: dict[str, Any], now: int) -> dict[str, Any]:
    """Run one action: plan or fail a Job; open, enqueue, sweep, close or fail a step."""
    job_id, run = event["jobId"], event["run"]
    action = event["action"]
    if action == "plan":
        from shardmill.engine.jobs.plan import plan  # no other action needs the models of definitions

        return {"planned": plan(mill, job_id, run, now, Budget.of_slice())}
    if action == "fail":
        cause = cause_of(event["error"])
        if "step" in event:
            close_step.fail_step(mill, job_id, run, event["step"], cause, now)
        else:
            finish.fail_job(mill, job_id, run, cause, now)
        return {"failed": True}
    index = event["step"]
    if action == "open":
        return open_step.open_step(mill, job_id, run, index, now)
    if action == "enqueue":
        key, ranks = (job_id, run, index), range(event["item"]["from"], event["item"]["to"])
        routes = [messages.Route.decode(text) for text in event["queues"]]
        return {"sent": messages.send_range(mill, routes, key, event["gen"], ranks)}
    if action == "sweep":
        return {"swept": close_step.sweep_set(mill, job_id, run, index, event["item"])}
    if action == "close":
        start = StepOpener(mill, now).start
        return {"state": close_step.close_step(mill, job_id, run, index, now, start).value}
    raise ValueError(f"unknown action {action!r}")


def cause_of(error: dict[str, str]) -> str:
    """Return the cause of a failed execution; of a Lambda error its type and message, without traceback."""
    cause = error.get("Cause") or error.get("cause") or ""
    try:
        details = json.loads(cause)
        return f"{details['errorType']}: {details['errorMessage']}"
    except (ValueError, KeyError, TypeError):
        return f"{error.get('Error') or error.get('error') or 'unknown'}: {cause}"
