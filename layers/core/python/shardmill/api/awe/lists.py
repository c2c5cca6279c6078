"""Lists of jobs, workunits and clients, with filters and paging."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Any

from shardmill.api.awe.awe_request import AweRequest
from shardmill.api.awe.envelope import AweAnswer, fitting_job, listed
from shardmill.engine.access.visible import Visible
from shardmill.engine.awe import documents, job_lists, work_lists
from shardmill.engine.awe.client_documents import client_documents
from shardmill.engine.awe.file_documents import Files
from shardmill.engine.awe.job_filters import ACTIVE, FAILED, JobFilter
from shardmill.engine.awe.job_lists import parse_cursor, parse_date
from shardmill.engine.awe.lookup import find_job
from shardmill.engine.awe.work_documents import work_document
from shardmill.engine.groups.matching import can_run
from shardmill.engine.mill import mill

DEFAULT_LIMIT = 25
MAX_LIMIT = 100
MAX_CLIENTS = 10_000
_WORKERS_AT_ONCE = 1_000
_MORE = "not all jobs were read, so total_count may grow; repeat the request with this cursor"
_UNORDERED = "only the newest {} jobs were read and ordered; narrow the list, or use no order"
_FLAGS = ("query", "active", "suspend", "registered", "verbosity", "date_start", "date_end")
_NO_FIELDS = frozenset((*_FLAGS, "limit", "offset", "order", "direction", "cursor"))


def list_jobs(request: AweRequest) -> AweAnswer:
    """Jobs, by default the newest first."""
    wanted = JobFilter(
        states=ACTIVE if request.has("active") else FAILED if request.has("suspend") else (),
        registered=request.has("registered"),
        fields=_fields(request) if request.has("query") else {},
        start=parse_date(request.text("date_start"), "date_start"),
        end=parse_date(request.text("date_end"), "date_end"),
    )
    limit, offset = _paging(request)
    found = job_lists.list_jobs(
        mill(),
        wanted,
        Visible(mill(), request.actor),
        order=request.text("order") or job_lists.SUBMITTED,
        descending=request.text("direction").lower() not in ("asc", "ascending"),
        offset=offset,
        limit=limit,
        cursor=parse_cursor(request.text("cursor")),
    )
    if request.text("verbosity") == "minimal":
        data = (documents.minimal_document(job, documents.read_steps(mill(), job)) for job in found.jobs)
    else:
        data = (fitting_job(documents.job_document(mill(), job, request.base)) for job in found.jobs)
    note = _MORE if found.rest else _UNORDERED.format(found.unordered) if found.unordered else ""
    answer = listed(data, limit=limit, offset=found.offset, total=found.total, note=note)
    rest = found.after(len(answer.data))
    return replace(answer, more={**answer.more, "cursor": str(rest)}) if rest else answer


def _fields(request: AweRequest) -> dict[str, frozenset[str]]:
    """The values that match, by field: a text, or one of several between commas."""
    given = {name: value for name, value in request.query.items() if name not in _NO_FIELDS}
    return {name: frozenset((value, *value.split(","))) for name, value in given.items()}


def _paging(request: AweRequest) -> tuple[int, int]:
    return request.limit(DEFAULT_LIMIT, MAX_LIMIT), request.number("offset", 0, least=0, most=10**9)


def list_work(request: AweRequest) -> AweAnswer:
    """Workunits of the jobs in the queue, or of one job."""
    job_id = request.text("jobid")
    if job_id:
        jobs = [find_job(mill(), job_id, request.actor, "read")]
    else:
        jobs = work_lists.live_jobs(mill(), Visible(mill(), request.actor))
    limit, offset = _paging(request)
    shown, total = work_lists.list_work(mill(), jobs, request.text("state"), offset=offset, limit=limit)
    workers = mill().workers.by_id({work.shard.worker_id for work in shown if work.shard.worker_id})
    steps = {work.job.id: documents.read_steps(mill(), work.job).steps for work in shown}
    data: list[dict[str, Any]] = []
    for work in shown:
        holder = workers.get(work.shard.worker_id)
        files = Files(mill(), steps[work.job.id], request.base)
        client = holder.name if holder else ""
        data.append(work_document(files, work.job, work.step, work.rank, work.shard, client=client))
    note = f"only the newest {work_lists.MAX_JOBS} jobs in each state were read; name one with jobid"
    full = not job_id and len(jobs) >= work_lists.MAX_JOBS
    return listed(data, limit=limit, offset=offset, total=total, note=note if full else "")


def list_clients(request: AweRequest) -> AweAnswer:
    """Clients and other workers, by `busy`, `group`, `status` and `app`."""
    visible = Visible(mill(), request.actor)
    read = list(islice(mill().workers.page(after=None, limit=_WORKERS_AT_ONCE), MAX_CLIENTS))
    rows = [row for row in read if visible.groups(row.groups)]
    group, app, status = request.text("group"), request.text("app"), request.text("status")
    found = [
        document
        for document in client_documents(mill(), rows, request.now)
        if (not request.has("busy") or document["busy"])
        and (not group or document["group"] == group)
        and (not status or document["status"] == status)
        and (not app or can_run(document["apps"], app))
    ]
    offset = _paging(request)[1]
    limit = request.limit(MAX_CLIENTS, MAX_CLIENTS)
    note = f"only {MAX_CLIENTS} clients were read" if len(read) == MAX_CLIENTS else ""
    return listed(found[offset : offset + limit], limit=limit, offset=offset, total=len(found), note=note)
