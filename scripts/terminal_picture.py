"""Draw docs/pictures/terminal.svg: a session on a terminal, with the real output of the commands.

    PYTHONPATH=tests python scripts/terminal_picture.py

It starts `shardmill dev` in a temporary folder, types the commands, and keeps their output in colour.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

from support.laptop import Laptop, start_laptop

PICTURE = Path(__file__).parents[1] / "docs/pictures/terminal.svg"
MAX_BYTES = 300_000
WIDTH = 100
MAX_LINES = 12
SESSION = (
    "shardmill init my-job",
    "shardmill define my-job/job.yaml",
    "shardmill submit my-job first --wait",
    "shardmill logs my-job first report 0",
    "shardmill cost my-job first",
)
_FONT_FACES = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        home.mkdir()
        with start_laptop(Path(folder)) as laptop:
            draw([(command, typed(command, laptop, home)) for command in SESSION], home)


def draw(outputs: list[tuple[str, str]], home: Path) -> None:
    """Write the picture; paths are shown relative to the folder of the session."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    for command, output in outputs:
        console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
        console.print(Text.from_ansi(output.replace(f"{home}/", "")), no_wrap=True, overflow="ellipsis")
        console.print()
    drawn = _FONT_FACES.sub("", console.export_svg(title="shardmill", unique_id="terminal"))
    drawn = drawn.replace("Fira Code, monospace", "ui-monospace, Menlo, Consolas, monospace")
    if len(drawn.encode()) > MAX_BYTES:
        sys.exit(f"{PICTURE.name} has {len(drawn.encode()):,} bytes, more than {MAX_BYTES:,}")
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(drawn)
    sys.stdout.write(f"{PICTURE.name}: {len(drawn.encode()):,} bytes\n")


def typed(command: str, laptop: Laptop, home: Path) -> str:
    """The last lines that a command prints, in colour. Exits if it fails."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "SHARDMILL_"))}
    done = subprocess.run(
        [sys.executable, "-m", *command.split()],
        cwd=home,
        env=kept
        | {
            "SHARDMILL_URL": laptop.url,
            "SHARDMILL_TOKEN": laptop.token,
            "FORCE_COLOR": "1",
            "XDG_CACHE_HOME": str(home / "cache"),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{command}: exit code {done.returncode}")
    return "\n".join(done.stdout.rstrip().splitlines()[:MAX_LINES])


if __name__ == "__main__":
    main()
