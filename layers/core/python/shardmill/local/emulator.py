"""The emulator process of `dev`: MiniStack with `emulator_quirks`, on a socket that `dev` has bound.

python -m shardmill.local.child_process shardmill.local.emulator SOCKET_DESCRIPTOR
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import sys
import threading
import traceback
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from hypercorn.asyncio import serve
from hypercorn.config import Config

from shardmill.local import emulator_quirks
from shardmill.local.dev_commands import answering_after, with_commands
from shardmill.local.errors import CORRUPT_STATE_EXIT_CODE
from shardmill.local.front import with_front
from shardmill.local.function_processes import answer_without_delay, share_layers, share_processes
from shardmill.local.journal import Journal
from shardmill.local.recorded_changes import RecordedChanges
from shardmill.local.saved_state import CorruptState, StateFiles
from shardmill.local.snapshot import Snapshots

_PRELOADED = "samtranslator.translator.transform"


def _config(descriptor: int) -> Config:
    config = Config()
    config.bind = [f"fd://{descriptor}"]
    config.keep_alive_timeout = 75
    config.loglevel = os.environ["LOG_LEVEL"]
    return config


def _raise_descriptor_limit() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


@dataclass(frozen=True, slots=True)
class _State:
    """The emulator's state: its snapshot, the journal of later changes, and interrupted executions."""

    saved: StateFiles
    journal: Journal
    changes: RecordedChanges
    interrupted: emulator_quirks.InterruptedExecutions
    ended: emulator_quirks.EndedExecutions
    snapshots: Snapshots

    @classmethod
    def of(cls, app: Any, folder: Path) -> _State:
        services = (app._get_module(name) for name in ("dynamodb", "stepfunctions", "sqs"))
        journal = Journal(folder.with_name("journal"))
        saved = StateFiles(app, folder)
        changes = RecordedChanges(journal, *services)
        interrupted = emulator_quirks.InterruptedExecutions(app._get_module("stepfunctions"))
        ended = emulator_quirks.EndedExecutions(app._get_module("stepfunctions"))
        return cls(saved, journal, changes, interrupted, ended, Snapshots(saved, journal))

    def restore(self) -> None:
        """Load the saved state, or exit if it is corrupt. Saving starts afterwards, so that nothing is
        overwritten."""
        try:
            self.saved.load()
            self.changes.apply(self.journal.records())
        except CorruptState as corrupt:
            traceback.print_exception(corrupt)
            sys.stderr.write(f"{corrupt}\n")
            sys.stderr.flush()
            os._exit(CORRUPT_STATE_EXIT_CODE)
        self.interrupted.find()
        self.ended.find()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, _save_and_exit, self.snapshots)
        self.changes.record()
        self.journal.start()
        self.snapshots.start(loop)

    async def resume(self) -> None:
        threading.Thread(target=self.interrupted.resume, daemon=True, name="resume").start()


def _save_and_exit(snapshots: Snapshots) -> None:
    """Save and exit at once, without waiting for requests in progress."""
    try:
        snapshots.finish(_stop_functions)
    except Exception:
        traceback.print_exc()
        os._exit(1)
    _stop_functions()
    os._exit(0)


def _stop_functions() -> None:
    """Stop the Lambda processes, and give this process a lower priority than the process that saves."""
    os.setpriority(os.PRIO_PGRP, 0, 19)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.killpg(0, signal.SIGTERM)


async def _run(app: Any, config: Config) -> None:
    threading.Thread(target=import_module, args=(_PRELOADED,), daemon=True).start()
    await serve(app, config, shutdown_trigger=asyncio.Event().wait)


def main() -> None:
    app: Any = import_module("ministack.app")
    emulator_quirks.persist_only(app, emulator_quirks.PERSISTED_SERVICES)
    for name in app._state_map.values():
        app._get_module(name)
    stepfunctions = import_module("ministack.services.stepfunctions")
    emulator_quirks.disable_docker(app)
    emulator_quirks.unlock_stacks(import_module("ministack.services.cloudformation"))
    emulator_quirks.skip_start_delay(stepfunctions)
    emulator_quirks.wake_waiting_receives(import_module("ministack.services.sqs"))
    functions = app._get_module("lambda_svc")
    emulator_quirks.keep_transaction_digests(app._get_module("dynamodb"))
    emulator_quirks.keep_no_events(import_module("ministack.services.eventbridge"))
    emulator_quirks.limit_log_streams(functions, import_module("ministack.services.cloudwatch_logs"))
    emulator_quirks.limit_metrics(import_module("ministack.services.cloudwatch"))
    runtime = import_module("ministack.core.lambda_runtime")
    share_processes(functions, runtime)
    share_layers(runtime)
    answer_without_delay(runtime)
    _raise_descriptor_limit()
    state = _State.of(app, Path(os.environ["STATE_DIR"]))
    app._load_persisted_state = state.restore
    served = answering_after(app.app, state.journal.synced)
    served = with_commands(served, {"save": state.snapshots.save, "resume": state.resume})
    asyncio.run(_run(with_front(served, Path.cwd()), _config(int(sys.argv[1]))))


if __name__ == "__main__":
    main()
