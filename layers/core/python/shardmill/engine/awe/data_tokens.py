"""The data tokens of workunits.

Clients get one token for all data of a workunit, wherever it is.
"""

from __future__ import annotations

from shardmill.engine.errors import BadRequest
from shardmill.engine.files.held_attempt import HeldAttempt
from shardmill.engine.jobs.run_nodes import run_nodes
from shardmill.engine.mill import Mill
from shardmill.engine.nodes.callers import add_reader
from shardmill.engine.nodes.work_token import WorkToken, mint
from shardmill.engine.private_values import open_data_token, seal_data_token
from shardmill.store.rows import JobRow, WorkerRow

MAX_TOKEN = 4_096


def check_text(token: str) -> None:
    """Raise BadRequest for a data token that clients could not send in a header."""
    if not token.isascii() or not token.isprintable() or len(token) > MAX_TOKEN:
        raise BadRequest(f"a data token must consist of at most {MAX_TOKEN} printable ASCII characters")


def data_token(mill: Mill, held: HeldAttempt, worker: WorkerRow) -> str:
    """The token that a client sends to read and write the data of an attempt.

    It is the one that the job was submitted with. Without one, the client gets a token of this server's node
    store that is valid for this attempt only.
    """
    step = held.step
    sealed = mill.data_tokens.get(step.job_id)
    if sealed:
        return open_data_token(mill, step.job_id, sealed)
    work = WorkToken(step.job_id, step.run, step.index, held.rank, held.attempt, worker.id)
    return mint(mill.settings.token_key, work)


def set_data_token(mill: Mill, job: JobRow, token: str, now: int) -> None:
    """Store the data token of a job, or replace it. Raises BadRequest."""
    check_text(token)
    specs = [node.define for node in run_nodes(mill, job) if node.kind == "step"]
    files = [file for spec in specs for file in (*spec.inputs, *spec.predata)]
    add_reader(mill, job.id, token, [file.node for file in files if file.s3 and file.node], now)
    mill.awe_jobs.set_token(job)
    mill.data_tokens.put(job.id, seal_data_token(mill, job.id, token))
