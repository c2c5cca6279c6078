"""Executables that replace missing programs and record their arguments, environment and directory."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_RECORD = """\
#!{python} -I
import json, os, sys
call = {{"words": sys.argv[1:], "environ": dict(os.environ), "folder": os.getcwd()}}
calls = os.open({calls!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
os.write(calls, (json.dumps(call) + "\\n").encode())  # at once: calls at the same time must not mix
os.close(calls)
"""


@dataclass(frozen=True)
class StandIn:
    path: Path
    calls_path: Path

    @property
    def calls(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.calls_path.read_text().splitlines()]

    @property
    def words(self) -> list[list[str]]:
        return [call["words"] for call in self.calls]


def stand_in(folder: Path, name: str, does: str = "") -> StandIn:
    """Create a program that records each call and then runs the Python code `does`."""
    folder.mkdir(exist_ok=True)
    path, calls = folder / name, folder / f"{name}.calls"
    path.write_text(_RECORD.format(python=sys.executable, calls=str(calls)) + does)
    path.chmod(0o755)
    return StandIn(path, calls)
