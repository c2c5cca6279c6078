"""`python -m support.fidelity DYNAMODB_LOCAL RECORDINGS`: judge recordings with DynamoDB Local."""

from __future__ import annotations

import sys
from pathlib import Path

from support.fidelity.judge import started
from support.fidelity.replay import Replay

SHOWN = 10


def main(dynamodb_local: str, recordings: str) -> int:
    files = sorted(Path(recordings).glob("*.jsonl"))
    with started(Path(dynamodb_local)) as judge:
        replay = Replay(judge)
        different = [found for file in files if (found := replay.run(file))]
    for each in different[:SHOWN]:
        print(each, file=sys.stderr)
    print(
        f"fidelity: {replay.compared} of {replay.requests} requests in {len(files)} recordings compared; "
        f"{len(different)} recordings differ"
    )
    return 1 if different or not replay.compared else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
