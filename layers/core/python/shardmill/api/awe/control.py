"""PUT and DELETE /awe/job/{id}: control of a job."""

from __future__ import annotations

from shardmill.api.awe.awe_request import AweRequest
from shardmill.aws.clock import new_id
from shardmill.engine.awe import control
from shardmill.engine.awe.lookup import find_job
from shardmill.engine.errors import BadRequest
from shardmill.engine.mill import mill
from shardmill.store.rows import JobRow

_ACTIONS = {
    "suspend": control.suspend_job,
    "resume": control.resume_job,
    "recover": control.recover_job,
    "resubmit": control.resubmit_job,
}
_RERUNS = ("recover", "resubmit", "recompute")


def change(request: AweRequest) -> str:
    """Change a job according to the query; the answer is a sentence."""
    reruns = any(request.has(name) for name in _RERUNS)
    job = _job(request, completed=reruns)
    for name, action in _ACTIONS.items():
        if request.has(name):
            return action(mill(), job, request.actor, request.now)
    if request.has("recompute"):
        return control.recompute_job(mill(), job, request.actor, request.text("recompute"), request.now)
    if request.has("clientgroup"):
        return control.set_groups(mill(), job, request.actor, request.text("clientgroup"), request.now)
    if request.has("priority"):
        most = control.MAX_PRIORITY
        if not request.text("priority"):
            raise BadRequest("priority must be an integer")
        priority = request.number("priority", 1, least=-most, most=most)
        return control.set_priority(mill(), job, request.actor, priority, request.now)
    if request.has("pipeline"):
        return control.set_pipeline(mill(), job, request.text("pipeline"), request.now)
    if request.has("expiration"):
        return control.set_expiration(mill(), job, request.text("expiration"), request.now)
    if request.has("settoken"):
        token = request.headers.get("datatoken", "").strip()
        return control.set_token(mill(), job, token, request.now)
    raise BadRequest(
        "the query must have one of suspend, resume, recover, recompute, resubmit, clientgroup, priority, "
        "pipeline, expiration and settoken"
    )


def delete(request: AweRequest) -> str:
    """Delete a job; with `full`, also its rows, files and logs."""
    full = request.has("full")
    job = _job(request, completed=True, deleted=full)
    return control.delete_job(mill(), job, request.actor, request.now, full=full)


def _job(request: AweRequest, *, completed: bool, deleted: bool = False) -> JobRow:
    """Return the job of a request; `completed`: first notify its dependents of its end."""
    job = find_job(mill(), request.ids["job_id"], request.actor, "operate", deleted=deleted)
    if not completed or not job.heirs_pending:
        return job
    from shardmill.engine.downstream import complete_end  # few requests need it

    return complete_end(mill(), job, request.now, new_id)
