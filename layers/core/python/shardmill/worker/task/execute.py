"""Run one leased task: its folder, files, program and time limit, and the result."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Event

from shardmill.model.definition.step_types import ContentError
from shardmill.model.worker import Lease, Result
from shardmill.worker.files.safe_paths import TransferError
from shardmill.worker.logs import LogStore, tail
from shardmill.worker.outcome import (
    DISCARDED,
    MAX_REASON,
    AttemptOutcome,
    InvalidTask,
    TaskRejected,
    outcome_of,
)
from shardmill.worker.task import process, task_types
from shardmill.worker.task.bounds import Bounds, Limits
from shardmill.worker.task.channel import BadOutput, LiveStatus, parse_response, read_output, read_progress
from shardmill.worker.task.checkpoint import Checkpoint
from shardmill.worker.task.environment import params_text
from shardmill.worker.task.lambda_task import invoke
from shardmill.worker.task.log_stream import LogUpload
from shardmill.worker.task.programs import ProgramContext, Programs
from shardmill.worker.task.task_files import FileAccess, download_inputs, upload_outputs, with_paths
from shardmill.worker.task.users import identity
from shardmill.worker.task.workdir import OUTPUT, PARAMS, PROGRESS, SESSION, TaskDir, create_task_dir

log = logging.getLogger("shardmill.worker")

_RESPONSE_TYPES = ("http", "lambda")
_NO_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Runtime:
    """The settings that all tasks of a worker share.

    `switch_user`: programs run as the `executeUser` of their task, or as `task_user` if it has none.
    `allow_hosts`: hosts that http tasks may send requests to.
    """

    root: Path
    programs: Programs = Programs()
    logs: LogStore | None = None
    keep: bool = False
    kill_seconds: float = 5.0
    limits: Limits = _NO_LIMITS
    switch_user: bool = False
    task_user: str | None = None
    allow_hosts: tuple[str, ...] = ()
    files: FileAccess | None = None


def execute(
    lease: Lease,
    runtime: Runtime,
    stop: Event,
    *,
    live: LiveStatus | None = None,
    limit_seconds: float | None = None,
) -> Result:
    """Run a task to its end. `limit_seconds`: an upper limit of its timeout.

    An error in the worker fails the attempt: other tasks of the worker continue.
    """
    started = datetime.now(UTC)
    if stop.is_set():
        outcome = AttemptOutcome("failed", DISCARDED)
    elif lease.fault:
        outcome = AttemptOutcome("failed-permanent", lease.fault)
    elif lease.type == "noop":
        outcome = AttemptOutcome("success", exit_code=0)
    else:
        bounds = Bounds(stop, _least(lease.timeout_seconds, limit_seconds))
        try:
            outcome = _attempt(lease, runtime, bounds, live or LiveStatus())
        except Exception as error:
            log.exception(
                "failed to run a task because of an error in the worker",
                extra={"action": "task-error", "task": lease.task_id, "attempt": lease.attempt},
            )
            outcome = AttemptOutcome("failed", f"the worker failed to run the task: {error}")
    return _result(lease, outcome, started)


def _result(lease: Lease, outcome: AttemptOutcome, started: datetime) -> Result:
    return Result(
        task_id=lease.task_id,
        attempt=lease.attempt,
        receipt=lease.receipt,
        outcome=outcome.outcome,
        exit_code=outcome.exit_code,
        reason=outcome.reason[:MAX_REASON] if outcome.reason else None,
        stdout=outcome.stdout or None,
        stderr=outcome.stderr or None,
        output=outcome.output,
        files=list(outcome.files) or None,
        start_time=started,
        end_time=datetime.now(UTC),
    )


def _attempt(lease: Lease, runtime: Runtime, bounds: Bounds, live: LiveStatus) -> AttemptOutcome:
    """Run a task; every error that prevents it becomes an outcome."""
    try:
        runtime.root.mkdir(parents=True, exist_ok=True)
        if rejection := runtime.limits.rejection(runtime.root):
            raise TaskRejected(rejection)
        user = identity(lease.execute_user, runtime.switch_user, runtime.task_user)
        with create_task_dir(lease, runtime.root, user, keep=runtime.keep) as task_dir:
            return _run_with_files(lease, runtime, task_dir, bounds, live)
    except TaskRejected as error:
        return AttemptOutcome("rejected", str(error))
    except InvalidTask as error:
        return AttemptOutcome("failed-permanent", str(error))
    except ContentError as error:
        return AttemptOutcome("failed-permanent", f"the content of a {lease.type} task {error}")
    except (process.NotStarted, TransferError) as error:
        return AttemptOutcome("failed", str(error))
    except OSError as error:
        return AttemptOutcome("failed", f"the worker failed to run the task: {error}")


def _run_with_files(
    lease: Lease, runtime: Runtime, task_dir: TaskDir, bounds: Bounds, live: LiveStatus
) -> AttemptOutcome:
    if not lease.prepare:
        return _run(with_paths(lease), runtime, task_dir, bounds, live)
    if not runtime.files:
        raise TaskRejected("this worker does not transfer files")
    task = download_inputs(lease, runtime.files, task_dir, bounds, live)
    outcome = _run(task.lease, runtime, task_dir, bounds, live)
    if outcome.outcome != "success" or not task.outputs:
        return outcome
    try:
        return replace(outcome, files=upload_outputs(task, runtime.files, task_dir, bounds, live))
    except TransferError as error:
        return replace(outcome, outcome="failed", reason=str(error))


def _run(
    lease: Lease, runtime: Runtime, task_dir: TaskDir, bounds: Bounds, live: LiveStatus
) -> AttemptOutcome:
    checkpoint = Checkpoint(lease, task_dir, runtime.files.urls if runtime.files else None)
    checkpoint.restore()
    with LogUpload(lease, runtime.logs, task_dir.streams, live) as upload:

        def watch() -> None:
            live.progress = read_progress(task_dir.channel / PROGRESS) or live.progress
            upload.poll()
            checkpoint.poll()

        watched = replace(bounds, watch=watch)
        if lease.type == "lambda":
            outcome = invoke(lease, task_dir, watched)
        else:
            outcome = _run_program(lease, runtime, task_dir, watched)
    stdout, stderr = (tail(path) for path in task_dir.streams.values())
    return checkpoint.finish(replace(_with_output(lease, task_dir, outcome), stdout=stdout, stderr=stderr))


def _run_program(lease: Lease, runtime: Runtime, task_dir: TaskDir, bounds: Bounds) -> AttemptOutcome:
    task_dir.write(PARAMS, params_text(lease), folder=task_dir.channel)
    program = task_types.program(ProgramContext(lease, task_dir, runtime.programs, runtime.allow_hosts))
    ended = process.run(
        program.argv,
        bounds,
        folder=task_dir.work,
        environ=program.environ,
        stdout=task_dir.streams["stdout"],
        stderr=task_dir.streams["stderr"],
        kill_seconds=runtime.kill_seconds,
        user=None if program.as_worker else task_dir.user,
        cleanup=program.cleanup,
        record=task_dir.folder / SESSION,
    )
    outcome = outcome_of(ended)
    if program.explain and not ended.timed_out and not ended.stopped:
        return program.explain(ended, tail(task_dir.streams["stderr"])) or outcome
    return outcome


def _with_output(lease: Lease, task_dir: TaskDir, outcome: AttemptOutcome) -> AttemptOutcome:
    """Add the output for later steps: the JSON that the task wrote, or the response that it received."""
    if outcome.outcome != "success":
        return outcome
    if lease.type in _RESPONSE_TYPES:
        return replace(outcome, output=parse_response(task_dir.streams["stdout"]))
    try:
        return replace(outcome, output=read_output(task_dir.channel / OUTPUT))
    except BadOutput as error:
        return replace(outcome, outcome="failed", reason=str(error))


def _least(*limits: float | None) -> float | None:
    return min((limit for limit in limits if limit is not None), default=None)
