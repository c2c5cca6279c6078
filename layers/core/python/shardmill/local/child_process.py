"""Runs a module as a program that ends when its parent does, however the parent ended.

The parent holds the other end of this process's standard input. When it closes, the program is asked to stop
as by a SIGTERM; what does not stop in time is ended.

    python -m shardmill.local.child_process MODULE ARGUMENT…
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading
import time

GRACE_SECONDS = 4.0


def leashed(module: str, *arguments: str) -> list[str]:
    """The command that runs a module on a leash; give it a pipe as its standard input.

    With -P no file of the folder it is started in is taken for a module of ours, or of Python's."""
    return [sys.executable, "-P", "-m", "shardmill.local.child_process", module, *arguments]


def _watch(pipe: int) -> None:
    while os.read(pipe, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    os._exit(1)


def hold() -> None:
    """Keep the leash to ourselves: children get an empty standard input instead of it."""
    pipe = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    threading.Thread(target=_watch, args=(pipe,), daemon=True, name="leash").start()


def main() -> None:
    if len(sys.argv) < 2:
        raise SystemExit("usage: python -m shardmill.local.child_process MODULE ARGUMENT…")
    hold()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
