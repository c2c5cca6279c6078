"""/awe/job: submit and read jobs."""

from __future__ import annotations

from typing import Any

from shardmill.api.awe.awe_request import AweRequest
from shardmill.api.awe.envelope import AweAnswer, job_answer
from shardmill.aws.clock import new_id
from shardmill.engine.awe import documents, job_lists, logs
from shardmill.engine.awe.lookup import find_job
from shardmill.engine.awe.submit import submit_document
from shardmill.engine.errors import BadRequest
from shardmill.engine.mill import mill
from shardmill.store.rows import JobRow


def submit(request: AweRequest) -> AweAnswer:
    """Submit the document in the field `upload`, or in the body itself."""
    body = request.document("upload")
    if not body.strip():
        raise BadRequest("there is no document; send it as a file in the field 'upload', or as the body")
    job = submit_document(
        mill(),
        body,
        request.actor,
        base=request.base,
        data_token=request.headers.get("datatoken", "").strip(),
        job_id=new_id(),
        now=request.now,
    )
    return job_answer(documents.job_document(mill(), job, request.base))


def read(request: AweRequest) -> Any:
    """A job, or, with `perf`, `position` or `report`, data about its run."""
    job = find_job(mill(), request.ids["job_id"], request.actor, "read", deleted=True)
    if request.has("perf") or request.has("report"):
        return _of_workunits(request, job)
    if request.has("position"):
        return _position(job, job_lists.parse_cursor(request.text("cursor")))
    return job_answer(documents.job_document(mill(), job, request.base))


def _of_workunits(request: AweRequest, job: JobRow) -> AweAnswer:
    """The performance of the workunits of a job, one page selected by `limit` and `offset`."""
    most = logs.MAX_WORKUNITS
    limit = request.limit(most, most)
    wanted = logs.WorkRange(request.number("offset", 0, least=0, most=10**9), limit)
    read = logs.performance if request.has("perf") else logs.report
    found = read(mill(), job, wanted, request.now)
    paging: dict[str, Any] = {"limit": limit, "offset": wanted.offset, "total_count": found.total}
    if found.taken is not None:
        note = f"the logs of more than {found.taken} workunits are too large; ask for the next by offset"
        paging |= {"limit": found.taken, "note": note}
    return AweAnswer(found.document, more=paging)


def _position(job: JobRow, cursor: job_lists.Cursor | None) -> dict[str, Any]:
    found = job_lists.position(mill(), job, cursor)
    answer = {"id": job.id, "position": found.place}
    if not found.rest:
        return answer
    note = "not all jobs in the queue were compared, so it may grow; repeat the request with this cursor"
    return {**answer, "note": note, "cursor": str(found.rest)}
