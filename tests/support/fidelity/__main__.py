"""`python -m support.fidelity DYNAMODB_LOCAL RECORDINGS`: judge recordings with DynamoDB Local."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from threading import current_thread

from support.fidelity.judge import Judge, started
from support.fidelity.replay import Difference, Replay

SHOWN = 10
THREADS = min(4, os.cpu_count() or 1)


def main(dynamodb_local: str, recordings: str) -> int:
    files = sorted(Path(recordings).glob("*.jsonl"), key=lambda file: file.stat().st_size, reverse=True)
    with started(Path(dynamodb_local)) as port, ThreadPoolExecutor(THREADS, "judge") as pool:
        replays = list(pool.map(partial(_replay, port), files))
    different = [str(difference) for _, difference in replays if difference]
    for each in sorted(different)[:SHOWN]:
        print(each, file=sys.stderr)
    requests, compared = (
        sum(getattr(replay, name) for replay, _ in replays) for name in ("requests", "compared")
    )
    print(
        f"fidelity: {compared} of {requests} requests in {len(files)} recordings compared; "
        f"{len(different)} recordings differ"
    )
    return 1 if different or not compared else 0


def _replay(port: int, file: Path) -> tuple[Replay, Difference | None]:
    """Each thread has a database of its own: the tables of all recordings have the same name."""
    with closing(Judge(port, name=current_thread().name)) as judge:
        replay = Replay(judge)
        return replay, replay.run(file)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
