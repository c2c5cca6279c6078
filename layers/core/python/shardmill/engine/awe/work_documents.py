"""Workunits as documents of the AWE protocol."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from shardmill.engine.awe.documents import command_document, info_document, part_document, plain, shell_words
from shardmill.engine.awe.file_documents import Files
from shardmill.engine.awe.task_names import name_in_ids, task_id, unit_id
from shardmill.engine.errors import FileUnavailable, MillError
from shardmill.engine.files.held_attempt import HeldAttempt
from shardmill.engine.files.sources import Upstream, sources
from shardmill.engine.mill import Mill
from shardmill.engine.nodes.work_token import WorkToken, mint
from shardmill.engine.workers.registry import worker_id
from shardmill.model.awe import states
from shardmill.model.awe.files import NO_NODE
from shardmill.model.awe.times import awe_time
from shardmill.model.blocks import Shard
from shardmill.model.files import File
from shardmill.model.states import TaskState
from shardmill.model.worker import Lease
from shardmill.store.rows import JobRow, StepRow

_SCRIPT = "SHARDMILL_SCRIPT"
_READ_BY_CLIENTS = ("'", "@", "${")
"""Characters of `args` that clients would change; a text that contains them is passed in a variable."""


def work_document(
    files: Files,
    job: JobRow,
    step: StepRow,
    rank: int,
    shard: Shard,
    *,
    client: str = "",
    sized: bool = False,
) -> dict[str, Any]:
    """A workunit. `sized`: with the sizes of its inputs, which must be read."""
    spec = step.define
    identity = unit_id(step, rank)
    part = part_document(step) if step.total > 1 else None
    given = (spec.inputs, spec.predata)
    inputs, predata = (
        files.sized_inputs(step, rank, each) if sized else files.inputs(each) for each in given
    )
    leased = shard.state is TaskState.RUNNING or shard.state.ended
    return {
        "id": identity,
        "wuid": identity,
        "jobid": job.id,
        "taskid": task_id(step),
        "task_name": name_in_ids(step),
        "rank": rank + 1 if step.total > 1 else 0,
        "totalwork": max(1, step.total),
        "state": states.WORK[shard.state],
        "failed": shard.failures,
        "info": info_document(job, [step]),
        "cmd": command_document(spec.command, str(spec.type), spec.content),
        "inputs": inputs,
        "outputs": files.outputs(step, rank),
        "predata": predata,
        "part": part,
        "partinfo": part,
        "userattr": {**(job.info.get("userattr") or {}), **spec.userattr},
        "checkout_time": awe_time(shard.time if leased else None),
        "client": client,
        "computetime": shard.span // 1000,
        "workpath": "",
        "exitstatus": 0,
    }


def leased_document(mill: Mill, leased: Lease, client: str, base: str) -> dict[str, Any]:
    """The workunit that a client checked out.

    Its `info.auth` is true if it has files: then the client asks for the token that the node store accepts.
    """
    from shardmill.engine.tasks.work_item import Receipt

    receipt = Receipt.decode(leased.receipt)
    job = mill.jobs.get(leased.job_id)
    assert receipt is not None
    assert job is not None  # a job with leased tasks is not deleted
    index, rank = map(int, leased.task_id.split("_")[1:])
    steps = _with_producers(mill, leased, index)
    step = next(each for each in steps if each.index == index)
    files = Files(mill, steps, base)
    document = work_document(files, job, step, rank, receipt.shard, client=client, sized=True)
    document["inputs"] = _with_addresses(mill, step, rank, step.define.inputs, document["inputs"])
    document["predata"] = _with_addresses(mill, step, rank, step.define.predata, document["predata"])
    document["cmd"] |= _rendered(leased, step)
    has_files = bool(document["inputs"] or document["outputs"] or document["predata"])
    document["info"]["auth"] = document["info"]["auth"] or has_files
    work = WorkToken(leased.job_id, leased.run, index, rank, leased.attempt, worker_id(client))
    key = mint(mill.settings.token_key, work)
    document["predata"] = [_plain_predata(file, base, key) for file in document["predata"]]
    return document


def _with_addresses(
    mill: Mill, step: StepRow, rank: int, listed: Sequence[File], documents: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Give files that have neither a node nor an address, as definitions of `/v1` name them, one in S3."""
    if all(document["url"] for document in documents):
        return documents
    try:
        rendered = HeldAttempt(step, rank, 0).files(listed)
    except FileUnavailable:
        return documents
    upstream = Upstream(mill, step)
    return [
        document if document["url"] else {**document, "url": _address(upstream, rank, file)}
        for file, document in zip(rendered, documents, strict=True)
    ]


def _address(upstream: Upstream, rank: int, file: File) -> str:
    """The address of the object of a file; empty if there is not exactly one."""
    try:
        found = sources(upstream, rank, file)
    except MillError:
        return ""
    return upstream.mill.files.get_url(found[0].place) if len(found) == 1 else ""


def _plain_predata(file: dict[str, Any], base: str, key: str) -> dict[str, Any]:
    """Predata of this server's node store as a plain address with a key.

    Older clients read predata without any token, and newer ones look nodes up beside `/awe`, not below it.
    """
    if file["host"] != base:
        return file
    return {**file, "host": "", "node": NO_NODE, "url": f"{file['url']}&key={key}"}


def _with_producers(mill: Mill, leased: Lease, index: int) -> Sequence[StepRow]:
    """The step of a lease and the steps that produce its files."""
    step = mill.jobs.step(leased.job_id, leased.run, index)
    assert step is not None
    spec = step.define
    origins = {file.origin for file in (*spec.inputs, *spec.predata) if file.origin}
    refs = step.context.get("refs", {})
    keys = [(leased.job_id, leased.run, refs[name]) for name in origins if name in refs]
    return [step, *mill.jobs.steps_by_key(keys).values()]


def _rendered(leased: Lease, step: StepRow) -> dict[str, Any]:
    """The command of the lease, whose templates are resolved for this task."""
    found: dict[str, Any] = {}
    script: dict[str, str] = {}
    if leased.command:
        words = [plain(word) for word in leased.command.args_array or []]
        found["args_array"] = words
        found["args"] = plain(leased.command.args or "") or shlex.join(words)  # older clients read only this
    elif isinstance(leased.content, str):
        found |= shell_words(leased.content)
        if any(sign in leased.content for sign in _READ_BY_CLIENTS):
            found["args"] = f"-c 'eval \"${_SCRIPT}\"'"
            script = {_SCRIPT: leased.content}
    own = step.define.command.environ.public if step.define.command else {}
    names = own if leased.command and not leased.params else leased.environ
    return found | {"environ": {"public": {name: leased.environ[name] for name in names} | script}}
