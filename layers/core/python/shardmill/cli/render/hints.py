"""What the API tells programs to do, in the words of the command line."""

from __future__ import annotations

import re

_MAKE_GROUP = re.compile(r"PUT /v1/groups/([\w.-]+)"), r"`shardmill groups add \1`"
# By the code of a problem or fault.
IN_COMMANDS = {
    "definition-not-found": (re.compile(r"PUT /v1/definitions/[\w.-]+"), "`shardmill define FILE`"),
    "group-not-found": _MAKE_GROUP,
    "unknown-group": _MAKE_GROUP,
    "schedule-not-found": (
        re.compile(r"PUT /v1/schedules/([\w.-]+)/([\w.-]+)"),
        r"`shardmill schedule save \1 \2 --cron …`",
    ),
    "definition-suspended": (
        re.compile(r"(?s)(the definition '([\w-]+)' was .*; no new Jobs of it start until )it is resumed$"),
        r"\1`shardmill definitions resume \2`",
    ),
    "group-in-use": (re.compile(r"delete it with force\b"), "remove it with --force"),
    "bad-file": (re.compile(r"overwrite it with force$"), "overwrite it with --force"),
    "missing-file": (
        re.compile(r"a file '([^']*)' that must come with the Job$"),
        r"a file '\1' that must come with the Job: give it with --file '\1=PATH'",
    ),
    "worker-alive": (re.compile(r"\bor force it:"), "or use --force:"),
    "worker-not-found": (
        re.compile(r"register with POST /v1/workers\b"),
        "`shardmill workers` lists those there are",
    ),
}


def in_commands(code: str, text: str) -> str:
    if code not in IN_COMMANDS:
        return text
    pattern, words = IN_COMMANDS[code]
    return pattern.sub(words, text)


def without_routes(text: str) -> str:
    """A text that has no code with it, such as the reason that a firing was refused for."""
    for pattern, words in IN_COMMANDS.values():
        if "/v1/" in pattern.pattern:
            text = pattern.sub(words, text)
    return text
