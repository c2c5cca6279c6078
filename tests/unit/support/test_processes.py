"""Child processes end with their tests, and start with default signal handling."""

import ast
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.paths import PROJECT
from support.processes import alive, child_process, gone, restore_signals

NUMBERS = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
ENDLESS = """
import subprocess, sys, time
print(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]).pid, flush=True)
time.sleep(60)
"""


@pytest.fixture
def _handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in NUMBERS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("_handlers")
@pytest.mark.parametrize("number", NUMBERS)
def test_children_get_signals_that_the_caller_ignores(number: signal.Signals) -> None:
    signal.signal(number, signal.SIG_IGN)
    restore_signals()
    os.kill(os.getpid(), number)
    with child_process(["sleep", "60"]) as child:
        child.send_signal(number)
        assert child.wait(10) == -number


def test_a_child_that_does_not_end_is_killed_with_its_descendants() -> None:
    with child_process([sys.executable, "-c", ENDLESS], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        grandchild = int(child.stdout.readline())
        assert alive(grandchild)
    assert child.returncode == -signal.SIGKILL
    assert gone(grandchild)


def _calls(path: Path) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("subprocess."):
            yield ast.unparse(node.func), node


def test_every_child_process_has_a_timeout() -> None:
    """subprocess.run needs a timeout, and Popen the finalizer of child_process."""
    folder = PROJECT / "tests"
    starters = {folder / "support" / "laptop.py", folder / "support" / "processes.py"}
    unlimited = [
        f"{path.relative_to(folder)}:{call.lineno}"
        for path in sorted(folder.rglob("*.py"))
        for name, call in _calls(path)
        if (name == "subprocess.Popen" and path not in starters)
        or (name == "subprocess.run" and not any(word.arg == "timeout" for word in call.keywords))
    ]
    assert unlimited == []
