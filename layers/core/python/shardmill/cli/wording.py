"""What the API tells programs to do, in the words of the command line."""

from __future__ import annotations

import re

# By the words, not by the problem's code: faults, and what a worker logs, come without one.
_IN_COMMANDS = (
    (re.compile(r"PUT /v1/definitions/[\w.-]+"), "`shardmill define FILE`"),
    (re.compile(r"PUT /v1/groups/([\w.-]+)"), r"`shardmill groups add \1`"),
    (re.compile(r"register with POST /v1/workers\b"), "`shardmill workers` lists those there are"),
    (re.compile(r"delete it with force\b"), "remove it with --force"),
    (re.compile(r"\bor force it:"), "or use --force:"),
)


def in_commands(text: str) -> str:
    for pattern, words in _IN_COMMANDS:
        text = pattern.sub(words, text)
    return text
