"""Running one leased task: its folder, its program, its time, what it wrote, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Event

from shardmill.model.definition.step_types import ContentError
from shardmill.model.worker import Lease, Result
from shardmill.worker.files.task_files import Errands, deliver, supply
from shardmill.worker.files.transfer import TransferError
from shardmill.worker.logs import LogStore, tail
from shardmill.worker.task import process, task_types
from shardmill.worker.task.channel import BadOutput, Live, answer_of, read_output, read_progress
from shardmill.worker.task.environment import params_text
from shardmill.worker.task.lambda_task import invoke
from shardmill.worker.task.limits import Bounds
from shardmill.worker.task.limits import Limits as Limits
from shardmill.worker.task.log_stream import LogFeed
from shardmill.worker.task.outcome import DISCARDED as DISCARDED
from shardmill.worker.task.outcome import MAX_REASON, Faulty, Finding, Unrunnable, judge
from shardmill.worker.task.programs import Order, Programs
from shardmill.worker.task.users import identity
from shardmill.worker.task.workdir import OUTPUT, PARAMS, PROGRESS, SESSION, Place, a_place

_ANSWERING = ("http", "lambda")


@dataclass(frozen=True, slots=True)
class Workshop:
    """Where and with what a worker runs tasks; all its tasks share one.

    `switch_user`: a task's program runs as its `executeUser`. `allow_hosts`: where http tasks may ask.
    """

    root: Path
    programs: Programs = Programs()
    logs: LogStore | None = None
    keep: bool = False
    kill_seconds: float = 5.0
    limits: Limits = Limits()
    switch_user: bool = False
    allow_hosts: tuple[str, ...] = ()
    errands: Errands | None = None


def execute(
    lease: Lease,
    shop: Workshop,
    stop: Event,
    *,
    live: Live | None = None,
    limit_seconds: float | None = None,
) -> Result:
    """Run a task to its end. `limit_seconds`: more time it cannot have, whatever it was promised."""
    started = datetime.now(UTC)
    if stop.is_set():
        finding = Finding("failed", DISCARDED)
    elif lease.fault:
        finding = Finding("failed-permanent", lease.fault)
    elif lease.type == "noop":
        finding = Finding("success", exit_code=0)
    else:
        bounds = Bounds(stop, _least(lease.timeout_seconds, limit_seconds))
        finding = _try(lease, shop, bounds, live or Live())
    return _result(lease, finding, started)


def unrun(lease: Lease, reason: str) -> Result:
    """The result of a task that could not be run at all."""
    return _result(lease, Finding("failed", reason), datetime.now(UTC))


def _result(lease: Lease, finding: Finding, started: datetime) -> Result:
    return Result(
        task_id=lease.task_id,
        attempt=lease.attempt,
        receipt=lease.receipt,
        outcome=finding.outcome,
        exit_code=finding.exit_code,
        reason=finding.reason[:MAX_REASON] if finding.reason else None,
        stdout=finding.stdout or None,
        stderr=finding.stderr or None,
        output=finding.output,
        files=list(finding.files) or None,
        start_time=started,
        end_time=datetime.now(UTC),
    )


def _try(lease: Lease, shop: Workshop, bounds: Bounds, live: Live) -> Finding:
    """Everything that can be in the way of a task, as a finding."""
    try:
        shop.root.mkdir(parents=True, exist_ok=True)
        if refusal := shop.limits.refusal(shop.root):
            raise Unrunnable(refusal)
        user = identity(lease.execute_user, shop.switch_user)
        with a_place(lease, shop.root, user, keep=shop.keep) as place:
            return _with_files(lease, shop, place, bounds, live)
    except Unrunnable as error:
        return Finding("rejected", str(error))
    except Faulty as error:
        return Finding("failed-permanent", str(error))
    except ContentError as error:
        return Finding("failed-permanent", f"the content of a {lease.type} task {error}")
    except (process.NotStarted, TransferError) as error:
        return Finding("failed", str(error))
    except OSError as error:
        return Finding("failed", f"the worker could not run it: {error}")


def _with_files(lease: Lease, shop: Workshop, place: Place, bounds: Bounds, live: Live) -> Finding:
    if not lease.prepare:
        return _run(lease, shop, place, bounds, live)
    if not shop.errands:
        raise Unrunnable("this worker fetches no files")
    supplied = supply(lease, shop.errands, place, bounds, live)
    finding = _run(supplied.lease, shop, place, bounds, live)
    if finding.outcome != "success" or not supplied.outputs:
        return finding
    try:
        return replace(finding, files=deliver(supplied, shop.errands, place, bounds, live))
    except TransferError as error:
        return replace(finding, outcome="failed", reason=str(error))


def _run(lease: Lease, shop: Workshop, place: Place, bounds: Bounds, live: Live) -> Finding:
    with LogFeed(lease, shop.logs, place.streams, live) as feed:

        def watch() -> None:
            live.progress = read_progress(place.told / PROGRESS) or live.progress
            feed.look()

        watched = replace(bounds, watch=watch)
        if lease.type == "lambda":
            finding = invoke(lease, place, watched)
        else:
            finding = _run_program(lease, shop, place, watched)
    stdout, stderr = (tail(path) for path in place.streams.values())
    return replace(_with_output(lease, place, finding), stdout=stdout, stderr=stderr)


def _run_program(lease: Lease, shop: Workshop, place: Place, bounds: Bounds) -> Finding:
    place.write(PARAMS, params_text(lease), folder=place.told)
    program = task_types.program(Order(lease, place, shop.programs, shop.allow_hosts))
    ended = process.run(
        program.words,
        bounds,
        folder=place.work,
        environ=program.environ,
        stdout=place.streams["stdout"],
        stderr=place.streams["stderr"],
        kill_seconds=shop.kill_seconds,
        user=None if program.as_worker else place.user,
        undo=program.undo,
        record=place.folder / SESSION,
    )
    finding = judge(ended)
    if program.explain and not ended.timed_out and not ended.stopped:
        return program.explain(ended, tail(place.streams["stderr"])) or finding
    return finding


def _with_output(lease: Lease, place: Place, finding: Finding) -> Finding:
    """What a task gives to later steps: what it wrote for that, or what it was answered if that will do."""
    if finding.outcome != "success":
        return finding
    if lease.type in _ANSWERING:
        return replace(finding, output=answer_of(place.streams["stdout"]))
    try:
        return replace(finding, output=read_output(place.told / OUTPUT))
    except BadOutput as error:
        return replace(finding, outcome="failed", reason=str(error))


def _least(*limits: float | None) -> float | None:
    return min((limit for limit in limits if limit is not None), default=None)
