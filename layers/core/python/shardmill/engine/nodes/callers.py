"""Who may read and write nodes: owners, readers of a job, and workers that hold a task of it."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from shardmill.engine.access.errors import Unauthorized
from shardmill.engine.access.visible import Visible
from shardmill.engine.errors import StaleAttempt, WorkerNotFound
from shardmill.engine.files import keys
from shardmill.engine.files.held_attempt import HeldAttempt, get_held_attempt
from shardmill.engine.files.sources import node_files
from shardmill.engine.mill import Mill
from shardmill.engine.nodes.errors import NodeNotFound
from shardmill.engine.nodes.work_token import WorkToken
from shardmill.engine.private_values import open_data_token
from shardmill.engine.workers.ownership import check_owner
from shardmill.model.actor import Actor
from shardmill.model.blocks import block_of
from shardmill.model.states import StepState, TaskState
from shardmill.store.awe.nodes import NodeRow
from shardmill.store.rows import JobRow, StepRow

_PURPOSE = b"data-token."
_READERS_TRIED = 100


@dataclass(frozen=True, slots=True)
class Caller:
    """`actor` is the actor of an API token. `work` is a work token; `text` is any other token."""

    actor: Actor
    work: WorkToken | None = None
    text: str = ""

    @property
    def known(self) -> bool:
        return bool(self.actor.grants) or self.work is not None

    def held(self, mill: Mill) -> HeldAttempt:
        """The attempt of the work token. Raises StaleAttempt if the worker no longer holds it."""
        assert self.work is not None
        work = self.work
        task = f"{work.job_id}_{work.step}_{work.rank}"
        return get_held_attempt(mill, work.worker_id, task, work.attempt, work.run)


def check_create(caller: Caller) -> None:
    """Raise Unauthorized unless the caller may create nodes."""
    actor = caller.actor
    if not caller.work and not actor.has("submit") and not actor.has("worker"):
        raise Unauthorized


def check_reads_job(mill: Mill, caller: Caller, job: JobRow, node_id: str, now: int) -> None:
    """Raise NodeNotFound unless the caller may read the files of a job."""
    if caller.work:
        _check_holder_reads(mill, caller, job.id, node_id)
        return
    if _reads(mill, caller.actor, job) or _has_data_token(mill, caller, job):
        return
    if _has_token_of_reader(mill, caller, node_id):
        return
    if not caller.known:
        raise Unauthorized
    if not any(_holds_task(mill, caller.actor, step, now) for step in _running_steps(mill, job)):
        raise NodeNotFound(node_id)


def upload_attempt(
    mill: Mill, caller: Caller, job: JobRow, step: StepRow, rank: int, node_id: str, now: int
) -> HeldAttempt:
    """The attempt that an upload belongs to: of the work token, or else the one that runs now."""
    if caller.work:
        held = caller.held(mill)
        if (held.step.key, held.rank) != (step.key, rank):
            raise NodeNotFound(node_id)
        return held
    shard = mill.shards.blocks(step, [block_of(rank)])[block_of(rank)][rank]
    actor = caller.actor
    allowed = (
        _has_data_token(mill, caller, job)
        or _submitted(mill, actor, job)
        or (actor.has("operate") and Visible(mill, actor, "operate").job(job))
        or (shard.worker_id and _owns(mill, actor, shard.worker_id, now))
    )
    if not allowed:
        if not caller.known:
            raise Unauthorized
        raise NodeNotFound(node_id)
    if shard.state is not TaskState.RUNNING:
        raise StaleAttempt(f"the workunit of node {node_id} is not running; its outputs cannot be stored")
    return HeldAttempt(step, rank, shard.attempt)


def check_reads_node(mill: Mill, caller: Caller, node: NodeRow) -> None:
    """Raise NodeNotFound unless the caller may read a node that belongs to no output."""
    if caller.work:
        _check_holder_reads(mill, caller, node.job_id, node.id)
        return
    actor = caller.actor
    if _is_owner(actor, node) or (actor.has("read") and not actor.limited("read")):
        return
    if _has_token_of_reader(mill, caller, node.id):
        return
    if not caller.known:
        raise Unauthorized
    raise NodeNotFound(node.id)


def check_writes_node(caller: Caller, node: NodeRow) -> None:
    """Raise NodeNotFound unless the caller owns a node, or is an administrator."""
    if caller.work and caller.work.job_id == node.job_id:
        return
    if _is_owner(caller.actor, node) or not caller.actor.limited("admin"):
        return
    if not caller.known:
        raise Unauthorized
    raise NodeNotFound(node.id)


def may_use(mill: Mill, actor: Actor, node: NodeRow) -> bool:
    """Whether an actor may submit a job that reads a node."""
    try:
        check_reads_node(mill, Caller(actor), node)
    except (NodeNotFound, Unauthorized):
        return False
    return True


def may_use_output(mill: Mill, actor: Actor, job: JobRow) -> bool:
    """Whether an actor may submit a job that reads an output of another job."""
    return _reads(mill, actor, job)


def _is_owner(actor: Actor, node: NodeRow) -> bool:
    return bool(actor.grants) and (actor.name, actor.token_id) == (node.owner, node.owner_token)


def _reads(mill: Mill, actor: Actor, job: JobRow) -> bool:
    if not actor.grants:
        return False
    return _submitted(mill, actor, job) or (actor.has("read") and Visible(mill, actor).job(job))


def _submitted(mill: Mill, actor: Actor, job: JobRow) -> bool:
    """Whether a job was submitted by the user of a token, within the limits of the token."""
    own = actor.name == job.submit_user and actor.has("submit")
    return own and Visible(mill, actor, "submit").job(job)


def _has_data_token(mill: Mill, caller: Caller, job: JobRow) -> bool:
    """Whether the caller shows the data token that the job was submitted with."""
    if not caller.text or not job.has_token:
        return False
    sealed = mill.data_tokens.get(job.id)
    known = open_data_token(mill, job.id, sealed).split()[-1:] if sealed else []
    return bool(known) and hmac.compare_digest(known[0].encode(), caller.text.encode())


def add_reader(mill: Mill, job_id: str, token: str, node_ids: Iterable[str], now: int) -> None:
    """Let the data token of a job read nodes that its tasks read but whose ids do not name the job."""
    words = token.split()
    if words:
        mill.nodes.add_readers(node_ids, _token_hash(mill, words[-1]), job_id, now=now)


def _has_token_of_reader(mill: Mill, caller: Caller, node_id: str) -> bool:
    """Whether the caller shows the data token that a job which reads the node has now."""
    if not caller.text:
        return False
    readers = islice(mill.nodes.readers(node_id, _token_hash(mill, caller.text)), _READERS_TRIED)
    jobs = (mill.jobs.get(job_id) for job_id in readers)
    return any(_has_data_token(mill, caller, job) for job in jobs if job)


def _token_hash(mill: Mill, text: str) -> str:
    return hmac.new(mill.settings.token_key.encode(), _PURPOSE + text.encode(), hashlib.sha256).hexdigest()


def _check_holder_reads(mill: Mill, caller: Caller, job_id: str, node_id: str) -> None:
    """Raise NodeNotFound unless a node is of the job whose task the caller holds, or an input of the task."""
    held = caller.held(mill)
    if held.step.job_id == job_id:
        return
    if node_id not in {keys.node_of(place.key) for place in node_files(mill, held.spec)}:
        raise NodeNotFound(node_id)


def _running_steps(mill: Mill, job: JobRow) -> list[StepRow]:
    steps = mill.jobs.steps(job.id, job.run)
    return [step for step in steps if step.kind == "step" and step.state is StepState.RUNNING]


def _holds_task(mill: Mill, actor: Actor, step: StepRow, now: int) -> bool:
    workers = {
        shard.worker_id
        for block in mill.shards.all_blocks(step.home)
        for _, shard in block.items()
        if shard.state is TaskState.RUNNING
    }
    return any(_owns(mill, actor, worker, now) for worker in workers)


def _owns(mill: Mill, actor: Actor, worker_id: str, now: int) -> bool:
    if not actor.has("worker"):
        return False
    try:
        check_owner(mill, actor, worker_id, now)
    except WorkerNotFound:
        return False
    return True
