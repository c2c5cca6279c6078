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
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from hypercorn.asyncio import serve
from hypercorn.config import Config

from shardmill.local import emulator_quirks
from shardmill.local.errors import CORRUPT_STATE_EXIT_CODE
from shardmill.local.saved_state import CorruptState, StateFiles
from shardmill.local.snapshot import Snapshots

UP_SECONDS = 0.5
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


def _restore(saved: StateFiles, snapshots: Snapshots) -> None:
    """Load the saved state, or exit if it is corrupt; start saving only then, to overwrite nothing."""
    try:
        saved.load()
    except CorruptState as corrupt:
        traceback.print_exception(corrupt)
        sys.stderr.write(f"{corrupt}\n")
        sys.stderr.flush()
        os._exit(CORRUPT_STATE_EXIT_CODE)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _save_and_exit, snapshots)
    snapshots.start(loop)


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
    """Stop the Lambda processes, and lower this process's priority below that of the one that saves."""
    os.setpriority(os.PRIO_PGRP, 0, 19)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.killpg(0, signal.SIGTERM)


async def _run(app: Any, config: Config, resume: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_later(UP_SECONDS, threading.Thread(target=resume, daemon=True).start)
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
    emulator_quirks.shorten_receive_polling(import_module("ministack.services.sqs"))
    resume = emulator_quirks.resume_executions(stepfunctions)
    _raise_descriptor_limit()
    saved = StateFiles(app, Path(os.environ["STATE_DIR"]))
    app._load_persisted_state = partial(_restore, saved, Snapshots(saved))
    asyncio.run(_run(app.app, _config(int(sys.argv[1])), resume))


if __name__ == "__main__":
    main()
