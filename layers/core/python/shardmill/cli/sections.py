"""The list of commands in the help of `shardmill`, by purpose."""

from __future__ import annotations

from typing import Any

from shardmill.cli.exits import CommandGroup

SECTIONS = {
    "Start": ("init", "demo", "dev", "open", "doctor", "completion"),
    "Definitions and schedules": ("validate", "define", "definitions", "graph", "estimate", "schedule"),
    "Run and control jobs": (
        *("submit", "watch", "start", "suspend", "resume", "kill", "rerun", "recompute", "force"),
        *("change", "priority", "delete"),
    ),
    "Look at jobs": (
        *("top", "jobs", "job", "why", "tasks", "logs", "files", "get", "history", "dependencies", "cost"),
    ),
    "Workers and operation": ("worker", "workers", "groups", "dlq", "tokens", "limits"),
}


class Commands(CommandGroup):
    """The group of all commands."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        width = max(len(name) for names in SECTIONS.values() for name in names)
        for heading, names in SECTIONS.items():
            found = [(name, self.get_command(ctx, name)) for name in names]
            rows = [
                (name.ljust(width), command.get_short_help_str(formatter.width - width - 6))
                for name, command in found
                if command
            ]
            with formatter.section(heading):
                formatter.write_dl(rows)
