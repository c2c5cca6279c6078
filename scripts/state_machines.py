"""Write the state machines with their placeholders filled in, for validators that do not support
substitutions."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
VALUES = {
    "Partition": "aws",
    "OrchestrateFunctionArn": "arn:aws:lambda:us-east-1:123456789012:function:orchestrate",
    "TableName": "table",
}


def filled(text: str) -> str:
    return re.sub(r"\$\{(\w+)\}", lambda found: VALUES[found[1]], text)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for file in sorted((ROOT / "statemachine").glob("*.asl.json")):
        (folder / file.name).write_text(filled(file.read_text()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
