"""Running one leased task: its folder, its program, its time, what it wrote, and how it ended."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Event

from shardmill.model.worker import Lease, Outcome, Result
from shardmill.worker import process
from shardmill.worker.logs import TAIL_BYTES, LogsNotStored, LogStore, Stream, tail
from shardmill.worker.programs import Faulty, Programs, Unrunnable, arguments, extra_environ

log = logging.getLogger("shardmill.worker")

PERMANENT_EXIT = 42
TIMED_OUT = "timed-out"
DISCARDED = "discarded"
# What a task's program inherits; all else in the worker's environment, its credentials too, stays with it.
_INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
_MAX_REASON = 1_000


@dataclass(frozen=True, slots=True)
class Workshop:
    """Where and with what a worker runs tasks; all its tasks share one."""

    root: Path
    programs: Programs = Programs()
    logs: LogStore | None = None
    keep: bool = False
    kill_seconds: float = 5.0


@dataclass(frozen=True, slots=True)
class Finding:
    """How an attempt ended, before it is a Result."""

    outcome: Outcome
    reason: str | None = None
    exit_code: int | None = None
    stdout: str | None = None
    stderr: str | None = None


def execute(lease: Lease, shop: Workshop, stop: Event, *, limit_seconds: float | None = None) -> Result:
    """Run a task to its end. `limit_seconds`: more time it cannot have, whatever it was promised."""
    started = datetime.now(UTC)
    if stop.is_set():
        finding = Finding("failed", DISCARDED)
    elif lease.type == "noop":
        finding = Finding("success", exit_code=0)
    else:
        try:
            finding = _run(lease, shop, stop, _least(lease.timeout_seconds, limit_seconds))
        except OSError as error:
            finding = Finding("failed", f"the worker could not run it: {error}")
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
        reason=finding.reason[:_MAX_REASON] if finding.reason else None,
        stdout=finding.stdout or None,
        stderr=finding.stderr or None,
        start_time=started,
        end_time=datetime.now(UTC),
    )


def _run(lease: Lease, shop: Workshop, stop: Event, timeout: float | None) -> Finding:
    try:
        program = arguments(lease, shop.programs)
    except Unrunnable as error:
        return Finding("rejected", str(error))
    except Faulty as error:
        return Finding("failed-permanent", str(error))
    with _folder(lease, shop) as folder:
        work = folder / "work"
        work.mkdir()
        streams: dict[Stream, Path] = {"stdout": folder / "stdout", "stderr": folder / "stderr"}
        try:
            ended = process.run(
                program,
                folder=work,
                environ=_environ(lease, shop.programs),
                stdout=streams["stdout"],
                stderr=streams["stderr"],
                stop=stop,
                timeout=timeout,
                kill_seconds=shop.kill_seconds,
            )
        except process.NotStarted as error:
            return Finding("failed", str(error))
        _store(lease, shop.logs, streams)
        return _judge(ended, {stream: tail(path) for stream, path in streams.items()})


def _judge(ended: process.Ended, tails: Mapping[Stream, str]) -> Finding:
    outcome: Outcome = "failed"
    reason: str | None = None
    if ended.timed_out:
        reason = TIMED_OUT
    elif ended.stopped:
        reason = DISCARDED
    elif ended.code == 0:
        outcome = "success"
    elif ended.code < 0:
        reason = f"killed by signal {-ended.code}"
    else:
        outcome = "failed-permanent" if ended.code == PERMANENT_EXIT else "failed"
        reason = f"exit code {ended.code}"
    return Finding(outcome, reason, ended.code, tails["stdout"], tails["stderr"])


def _environ(lease: Lease, programs: Programs) -> dict[str, str]:
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return {"PATH": os.defpath, **inherited, **lease.environ, **extra_environ(lease, programs)}


@contextmanager
def _folder(lease: Lease, shop: Workshop) -> Iterator[Path]:
    shop.root.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{lease.task_id}_{lease.attempt}-", dir=shop.root))
    try:
        yield folder
    finally:
        if shop.keep:
            log.info("kept folder=%s task=%s", folder, lease.task_id)
        else:
            _remove(folder)


def _remove(folder: Path) -> None:
    """A task may have taken its own rights away; they are given back, so that nothing stays behind."""
    try:
        shutil.rmtree(folder)
    except OSError:
        for parent, folders, _ in os.walk(folder):
            for name in folders:
                path = Path(parent, name)
                if not path.is_symlink():
                    path.chmod(0o700)
        shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        log.warning("folder-left folder=%s", folder)


def _store(lease: Lease, logs: LogStore | None, streams: Mapping[Stream, Path]) -> None:
    for stream, path in streams.items():
        if logs and path.stat().st_size > TAIL_BYTES:
            try:
                logs.store(lease, stream, path)
            except LogsNotStored as error:
                log.warning("log-not-stored task=%s stream=%s error=%s", lease.task_id, stream, error)


def _least(*limits: float | None) -> float | None:
    return min((limit for limit in limits if limit is not None), default=None)
