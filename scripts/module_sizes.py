"""Check the sizes of modules under layers/, and that no folder of the project has too many modules."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

PROJECT = Path(__file__).parents[1]
CORE = PROJECT / "layers/core/python/shardmill"
SOURCES = ("layers/core/python", "functions", "scripts", "tests")
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
    yield from crowded_folders(path.relative_to(PROJECT) for path in modules(PROJECT))


def modules(project: Path) -> Iterator[Path]:
    """The Python and JavaScript modules of the package, the dashboard, the functions, scripts and tests."""
    for folder in SOURCES:
        for path in sorted((project / folder).rglob("*")):
            if path.suffix in (".py", ".js") and path.name != "__init__.py":
                yield path


def crowded_folders(paths: Iterable[Path]) -> Iterator[str]:
    for folder, count in Counter(path.parent for path in paths).items():
        if count > MAX_MODULES:
            yield f"{folder.as_posix()}/ has {count} modules, more than {MAX_MODULES}; split it by subject"


def main() -> int:
    found = list(faults())
    for fault in found:
        sys.stderr.write(f"{fault}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
