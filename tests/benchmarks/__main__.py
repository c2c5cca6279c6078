"""Measures the budgets of the design on this machine: `make bench`.

Every measurement that depends on the machine's speed is also given as a ratio within this run.
"""

from __future__ import annotations

import json
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import clock, cost, idle, imports, laptop, split
from benchmarks.result import Result

BENCHES: dict[str, Callable[[Path], Iterator[Result]]] = {
    "imports": imports.measure,
    "cost": cost.measure,
    "idle": idle.measure,
    "clock": clock.measure,
    "split": split.measure,
    "laptop": laptop.measure,
}


def main(chosen: list[str]) -> int:
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="shardmill-bench-") as folder:
        for name, bench in BENCHES.items():
            if chosen and name not in chosen:
                continue
            sys.stderr.write(f"bench: {name}\n")
            for result in bench(Path(folder)):
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
