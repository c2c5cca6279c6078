"""The program that `dev` runs as its cloud: MiniStack with our quirks, on a socket that `dev` has bound.

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
from shardmill.local.errors import SPOILT_CODE
from shardmill.local.saved_state import Saved, Spoilt
from shardmill.local.snapshot import Snapshots

UP_SECONDS = 0.5
_SOON_NEEDED = "samtranslator.translator.transform"


def _config(descriptor: int) -> Config:
    config = Config()
    config.bind = [f"fd://{descriptor}"]
    config.keep_alive_timeout = 75
    config.loglevel = os.environ["LOG_LEVEL"]
    return config


def _raise_descriptor_limit() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _restore(saved: Saved, snapshots: Snapshots) -> None:
    """What cannot be read is not served, and what has not been read is not written over: only from here on is
    there something to save."""
    try:
        saved.load()
    except Spoilt as spoilt:
        traceback.print_exception(spoilt)
        sys.stderr.write(f"{spoilt}\n")
        sys.stderr.flush()
        os._exit(SPOILT_CODE)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _end, snapshots)
    snapshots.start(loop)


def _end(snapshots: Snapshots) -> None:
    """Save and end, at once: a server that is busy would take its time to finish what it is at."""
    try:
        snapshots.finish(_end_functions)
    except Exception:
        traceback.print_exc()
        os._exit(1)
    _end_functions()
    os._exit(0)


def _end_functions() -> None:
    """The Lambda processes go; what this process still does stands back behind the writing of its state."""
    os.setpriority(os.PRIO_PGRP, 0, 19)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.killpg(0, signal.SIGTERM)


async def _run(app: Any, config: Config, run_again: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_later(UP_SECONDS, threading.Thread(target=run_again, daemon=True).start)
    threading.Thread(target=import_module, args=(_SOON_NEEDED,), daemon=True).start()
    await serve(app, config, shutdown_trigger=asyncio.Event().wait)


def main() -> None:
    app: Any = import_module("ministack.app")
    emulator_quirks.save_only(app, emulator_quirks.SAVED_SERVICES)
    for name in app._state_map.values():
        app._get_module(name)
    stepfunctions = import_module("ministack.services.stepfunctions")
    emulator_quirks.without_docker(app)
    emulator_quirks.release_stacks(import_module("ministack.services.cloudformation"))
    emulator_quirks.start_executions_at_once(stepfunctions)
    emulator_quirks.answer_receives_soon(import_module("ministack.services.sqs"))
    run_again = emulator_quirks.keep_executions(stepfunctions)
    _raise_descriptor_limit()
    saved = Saved(app, Path(os.environ["STATE_DIR"]))
    app._load_persisted_state = partial(_restore, saved, Snapshots(saved))
    asyncio.run(_run(app.app, _config(int(sys.argv[1])), run_again))


if __name__ == "__main__":
    main()
