"""Rewrite advice in API errors, which names routes, into advice that names commands."""

from __future__ import annotations

import re

_CREATE_GROUP = re.compile(r"PUT /v1/groups/([\w.-]+)"), r"`shardmill groups add \1`"
# Pattern and replacement, by the code of the problem or fault.
REWRITES = {
    "definition-not-found": (re.compile(r"PUT /v1/definitions/[\w.-]+"), "`shardmill define FILE`"),
    "group-not-found": _CREATE_GROUP,
    "unknown-group": _CREATE_GROUP,
    "schedule-not-found": (
        re.compile(r"PUT /v1/schedules/([\w.-]+)/([\w.-]+)"),
        r"`shardmill schedule save \1 \2 --cron …`",
    ),
    "definition-suspended": (
        re.compile(r"(?s)(the definition '([\w-]+)' .*\buntil )it is resumed$"),
        r"\1`shardmill definitions resume \2`",
    ),
    "conflict": (
        re.compile(r"select the steps to rerun, or all$"),
        "select what to rerun with --step or --all",
    ),
    "group-in-use": (re.compile(r"delete it with force\b"), "remove it with --force"),
    "bad-file": (re.compile(r"overwrite it with force$"), "overwrite it with --force"),
    "missing-file": (
        re.compile(r"a file '([^']*)' that must come with the Job$"),
        r"a file '\1' that must come with the Job: give it with --file '\1=PATH'",
    ),
    "worker-alive": (re.compile(r"\bor force it:"), "or use --force:"),
    "unauthorized": (
        re.compile(r"send the header `Authorization: Bearer <token>`"),
        "pass one with --token or SHARDMILL_TOKEN",
    ),
    "worker-not-found": (
        re.compile(r"register with POST /v1/workers\b"),
        "`shardmill workers` lists the registered workers",
    ),
}


def with_commands(code: str, text: str) -> str:
    """Replace the route or flag that an error with this code suggests by the matching command."""
    if code not in REWRITES:
        return text
    pattern, replacement = REWRITES[code]
    return pattern.sub(replacement, text)


def without_routes(text: str) -> str:
    """Replace every known route in a text without a code, such as the reason of a refused firing."""
    for pattern, replacement in REWRITES.values():
        if "/v1/" in pattern.pattern:
            text = pattern.sub(replacement, text)
    return text
