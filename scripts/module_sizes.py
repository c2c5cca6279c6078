"""Check the sizes of the modules under layers/: not too long, not too short, not too many in a folder."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

CORE = Path(__file__).parents[1] / "layers/core/python/shardmill"
MAX_LINES = 320
MIN_LINES = 30
MAX_MODULES = 20
SHORT_FOR_A_REASON = {
    "__main__.py": "entry point of `python -m shardmill`",
    "api/lease.py": "functions/lease imports this route and no other",
    "aws/clock.py": "the only source of time and ids, imported everywhere",
    "aws/functions.py": "one module per AWS service",
    "aws/topics.py": "one module per AWS service",
    "cli/main.py": "entry point of the command, imports the rest on demand",
    "engine/conflict.py": "the one retry on conflict, shared by all use cases",
    "engine/task_id.py": "the format of task ids, shared by the API and the engine",
    "local/errors.py": "exceptions shared by modules that do not import each other",
    "engine/access/receipts.py": "the lease function imports it, which needs nothing else of access",
    "model/access/usage.py": "Pydantic models; functions without the API import model/access/limits only",
    "model/history.py": "a value that the store and the views share",
    "model/timestamps.py": "closing a step imports it without the models of model/base",
}


def faults() -> Iterator[str]:
    sizes = {
        path.relative_to(CORE).as_posix(): len(path.read_text().splitlines())
        for path in sorted(CORE.rglob("*.py"))
        if path.name != "__init__.py"
    }
    for name, lines in sizes.items():
        if lines > MAX_LINES:
            yield f"{name} has {lines} lines, more than {MAX_LINES}; split it"
        if lines < MIN_LINES and name not in SHORT_FOR_A_REASON:
            yield f"{name} has {lines} lines, fewer than {MIN_LINES}; merge it, or list it with a reason"
    for name in SHORT_FOR_A_REASON:
        if sizes.get(name, MIN_LINES) >= MIN_LINES:
            yield f"{name} is not a short module; remove it from SHORT_FOR_A_REASON"
    folders = [name.rpartition("/")[0] for name in sizes]
    for folder in dict.fromkeys(folders):
        if folders.count(folder) > MAX_MODULES:
            yield f"{folder}/ has {folders.count(folder)} modules, more than {MAX_MODULES}; make packages"


def main() -> int:
    found = list(faults())
    for fault in found:
        sys.stderr.write(f"{fault}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
