"""/awe/work: check workunits out, return their tokens and private environments, and record their results."""

from __future__ import annotations

import json
from typing import Any

from shardmill.api.awe.awe_request import AweRequest
from shardmill.api.awe.envelope import AweAnswer, last_part
from shardmill.aws.clock import now_ms
from shardmill.engine.awe import checkout
from shardmill.engine.awe.data_tokens import data_token
from shardmill.engine.awe.documents import read_steps
from shardmill.engine.awe.file_documents import Files
from shardmill.engine.awe.logs import STREAMS, read_log
from shardmill.engine.awe.lookup import find_job, find_work, own_client
from shardmill.engine.awe.report import LOGS, held_attempt, held_shard, report_work
from shardmill.engine.awe.work_documents import leased_document, work_document
from shardmill.engine.errors import BadRequest
from shardmill.engine.files.presign import private_environ
from shardmill.engine.mill import mill
from shardmill.engine.views.tasks import displayed_shard

MAX_BYTES = 2**62
MAX_SECONDS = 10**9


def read(request: AweRequest) -> Any:
    """A workunit, or with `report=stdout|stderr|worknotes` one of its logs."""
    work = find_work(mill(), request.ids["work_id"])
    job = find_job(mill(), work.job.id, request.actor, "read", shown=request.ids["work_id"])
    stream = request.text("report")
    if request.has("report"):
        if stream not in STREAMS:
            raise BadRequest(f"report must be one of {', '.join(STREAMS)}, not {stream[:64]!r}")
        return last_part(read_log(mill(), job, work.step, work.rank, stream, request.now))
    shard = displayed_shard(work.step, held_shard(mill(), work))
    holder = mill().workers.get(shard.worker_id) if shard.worker_id else None
    files = Files(mill(), read_steps(mill(), job).steps, request.base)
    client = holder.name if holder else ""
    return work_document(files, job, work.step, work.rank, shard, client=client, sized=True)


def check_out(request: AweRequest) -> dict[str, Any]:
    """Check out the next workunit that the client may run."""
    client = request.text("client")
    worker = own_client(mill(), client, request.actor, request.now)
    space = request.number("available", -1, least=-1, most=MAX_BYTES)
    leased = checkout.check_out(mill(), worker, space if space >= 0 else None, now_ms)
    return leased_document(mill(), leased, client, request.base)


def read_data_token(request: AweRequest) -> AweAnswer:
    """The token for the data of a workunit, in a header."""
    held = _held(request)
    return AweAnswer(None, headers={"Datatoken": data_token(mill(), *held)})


def read_private_env(request: AweRequest) -> AweAnswer:
    """The private environment of a workunit, in a header."""
    held, _ = _held(request)
    environ = json.dumps(private_environ(mill(), held), separators=(",", ":"))
    return AweAnswer(None, headers={"Privateenv": environ})


def _held(request: AweRequest) -> Any:
    worker = own_client(mill(), request.text("client"), request.actor, request.now)
    return held_attempt(mill(), find_work(mill(), request.ids["work_id"]), worker), worker


def report(request: AweRequest) -> str:
    """Record the result of a workunit, with the files `perf`, `stdout`, `stderr` and `worknotes`."""
    parts = request.parts()
    seconds = request.seconds("computetime", most=MAX_SECONDS)
    state = report_work(
        mill(),
        request.ids["work_id"],
        request.text("client"),
        request.actor,
        request.text("status"),
        compute_seconds=seconds,
        logs={name: parts[name].content for name in LOGS if name in parts},
        now=request.now,
    )
    return f"workunit {request.ids['work_id']} reported: {state}"
