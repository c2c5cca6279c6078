"""The program that `dev` runs as its cloud: MiniStack with our quirks, on a socket that `dev` has bound.

python -m shardmill.local.leash shardmill.local.emulator SOCKET_DESCRIPTOR
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable
from importlib import import_module
from typing import Any

from hypercorn.asyncio import serve
from hypercorn.config import Config

from shardmill.local import quirks
from shardmill.local.snapshot import Snapshots

GRACE_SECONDS = 0.5
UP_SECONDS = 0.5
_FIRST_NEEDED = ("cloudformation", "stepfunctions", "lambda_svc", "apigateway", "eventbridge")
_SOON_NEEDED = "samtranslator.translator.transform"


def _config(descriptor: int) -> Config:
    config = Config()
    config.bind = [f"fd://{descriptor}"]
    config.keep_alive_timeout = 75
    config.graceful_timeout = GRACE_SECONDS
    config.loglevel = os.environ["LOG_LEVEL"]
    return config


def _raise_descriptor_limit() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _leave() -> None:
    """End at once, Lambda processes included: an invocation that still runs would hold this process."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.killpg(os.getpgrp(), signal.SIGTERM)
    os._exit(0)


async def _run(app: Any, config: Config, when_up: list[Callable[[], None]]) -> None:
    loop = asyncio.get_running_loop()
    for action in when_up:
        loop.call_later(UP_SECONDS, threading.Thread(target=action, daemon=True).start)
    threading.Thread(target=import_module, args=(_SOON_NEEDED,), daemon=True).start()
    await serve(app, config)
    _leave()


def main() -> None:
    app = import_module("ministack.app")
    for name in _FIRST_NEEDED:
        app._get_module(name)
    stepfunctions = import_module("ministack.services.stepfunctions")
    quirks.without_docker(app)
    quirks.release_stacks(import_module("ministack.services.cloudformation"))
    quirks.save_only(app, quirks.SAVED_SERVICES)
    quirks.start_executions_at_once(stepfunctions)
    quirks.answer_receives_soon(import_module("ministack.services.sqs"))
    run_again = quirks.keep_executions(stepfunctions)
    _raise_descriptor_limit()
    asyncio.run(_run(app.app, _config(int(sys.argv[1])), [run_again, Snapshots(app).start]))


if __name__ == "__main__":
    main()
