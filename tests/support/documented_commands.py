"""The shell commands of the documentation: its fenced `sh` blocks, and which of them are not run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from support.paths import PROJECT

PAGES = [
    PROJECT / "README.md",
    PROJECT / "CONTRIBUTING.md",
    *sorted((PROJECT / "docs").rglob("*.md")),
    *sorted((PROJECT / "tests").rglob("*.md")),
]

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MARK = re.compile(r"<!-- not run: needs (?P<need>[^:]+): (?P<reason>[^\n]+) -->\n$")

NEEDS = {
    "AWS": (
        r"make (un)?deploy |\.venv-sam/bin/sam remote |aws [a-z0-9]+ |curl --aws-sigv4 "
        r"|export SHARDMILL_URL=https://[^ ]*amazonaws\.com"
    ),
    "Docker": r"docker |make sam|\.venv-sam/bin/sam local ",
    "a network": r"apt-get install |pip install |git clone ",
    "root": r"sudo ",
    "the whole machine": (
        r"make (setup|demo|test|check|bench|pictures)\b|\.venv/bin/pytest |PYTHONPATH=tests "
    ),
}
"""What a block can need that the laptop cloud has not, and how the commands that need it begin.

A block that begins with a command for AWS may go on with `shardmill`, which then talks to AWS."""


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    language: str
    text: str
    need: str = ""
    reason: str = ""

    @property
    def commands(self) -> list[str]:
        """The commands, with continued lines joined and here-documents left out."""
        joined = re.sub(r"\\\n\s*", "", self.text)
        joined = re.sub(r"<<'(\w+)'\n.*?^\1$", "", joined, flags=re.MULTILINE | re.DOTALL)
        return [line.strip() for line in joined.splitlines() if line.strip() and not line.startswith("#")]

    def __str__(self) -> str:
        return f"{self.page.relative_to(PROJECT)}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page."""
    text = page.read_text()
    for fence in _FENCE.finditer(text):
        before = text[: fence.start()]
        mark = _MARK.search(before)
        need, reason = (mark["need"], mark["reason"]) if mark else ("", "")
        yield Block(page, before.count("\n") + 1, fence[1], fence[2], need, reason)


def unjustified(block: Block) -> list[str]:
    """The commands of a block that is not run which do not need what the block says."""
    pattern = NEEDS.get(block.need)
    if pattern is None:
        return block.commands
    begins = [re.match(pattern, command) is not None for command in block.commands]
    on_aws = block.need == "AWS" and begins[:1] == [True] and block.commands[0].startswith("export ")
    return [
        command
        for command, justified in zip(block.commands, begins, strict=True)
        if not justified and not (on_aws and re.match(r"(\.venv/bin/)?shardmill ", command))
    ]
