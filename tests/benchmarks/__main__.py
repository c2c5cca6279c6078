"""Measure the performance budgets on this machine: `make bench`.

Measurements that depend on the speed of the machine are also given relative to another of the same run.
"""

from __future__ import annotations

import json
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import clock, cost, http, idle, imports, laptop, priorities, split
from benchmarks.result import Result

BENCHMARKS: dict[str, Callable[[Path], Iterator[Result]]] = {
    "imports": imports.measure,
    "cost": cost.measure,
    "idle": idle.measure,
    "clock": clock.measure,
    "split": split.measure,
    "laptop": laptop.measure,
    "http": http.measure,
    "priorities": priorities.measure,
}


def main(names: list[str]) -> int:
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="shardmill-bench-") as folder:
        for name, measure in BENCHMARKS.items():
            if names and name not in names:
                continue
            sys.stderr.write(f"bench: {name}\n")
            for result in measure(Path(folder)):
                results.append(result)
                sys.stderr.write(f"  {result}\n")
    sys.stdout.write(f"Python {platform.python_version()}, {platform.machine()}\n\n")
    sys.stdout.write("| what | measured | budget | met |\n| --- | --- | --- | --- |\n")
    for result in results:
        sys.stdout.write(result.row() + "\n")
    Path("bench.json").write_text(json.dumps([result.__dict__ for result in results], indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
