"""Run a module as a program that exits when its parent does, even if the parent was killed.

The parent holds the other end of this process's standard input. When that pipe closes, the program gets a
SIGTERM, and is killed if it does not exit in time.

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


def child_command(module: str, *arguments: str) -> list[str]:
    """The command that runs a module as a child process; its standard input must be a pipe.

    With -P, Python does not import modules from the current folder."""
    return [sys.executable, "-P", "-m", "shardmill.local.child_process", module, *arguments]


def _watch(pipe: int) -> None:
    while os.read(pipe, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    os._exit(1)


def exit_with_parent() -> None:
    """Watch the pipe from the parent; children of this process get an empty standard input instead."""
    pipe = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    threading.Thread(target=_watch, args=(pipe,), daemon=True, name="parent-watch").start()


def main() -> None:
    if len(sys.argv) < 2:
        raise SystemExit("usage: python -m shardmill.local.child_process MODULE ARGUMENT…")
    exit_with_parent()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
