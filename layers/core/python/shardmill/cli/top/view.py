"""The screen of `shardmill top`: counts, Jobs, groups and workers in as many lines as fit."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from shardmill.cli.output import fit, printable, seconds
from shardmill.cli.terminal import text_width
from shardmill.cli.top.feed import Snapshot

BAR_WIDTH = 14
MIN_LIST = 2
PLAIN_LINES = 100_000
_STYLES = {
    "RUNNING": "cyan",
    "QUEUED": "blue",
    "WAITING": "dim",
    "SUSPENDED": "yellow",
    "FAILED": "red",
    "KILLED": "red",
    "SUCCESS": "green",
    "ONLINE": "green",
    "DRAINING": "yellow",
    "DISCONNECTED": "red",
    "OFFLINE": "dim",
}
_LIVE = ("RUNNING", "QUEUED", "WAITING", "SUSPENDED")
_WORKER_STATES = {0: "OFFLINE", 1: "DRAINING", 2: "DISCONNECTED", 3: "ONLINE"}
KEYS = "q quit   r refresh"


def draw(snapshot: Snapshot, url: str, now: datetime, age: float | None, lines: int | None) -> RenderableType:
    """Draw the snapshot in `lines` lines, or whole; `age` is the age of its data in seconds."""
    parts: list[RenderableType] = [_header(snapshot, url, age, KEYS if lines else "")]
    lines = lines or PLAIN_LINES
    if not snapshot.now:
        return Group(*parts)
    jobs, groups = _jobs(snapshot.now), snapshot.now["groups"]
    parts.append(_counts(snapshot.now))
    room = max(3 * MIN_LIST, lines - len(parts) - 3 * 2)  # each list has a heading and an empty line
    shown_groups = min(len(groups), max(MIN_LIST, room // 4))
    shown_workers = min(len(snapshot.workers), max(MIN_LIST, room // 4))
    shown_jobs = max(MIN_LIST, room - shown_groups - shown_workers)
    parts += ["", _job_table(jobs, shown_jobs, snapshot.progress, now)]
    parts += ["", _group_table(groups, shown_groups)]
    parts += ["", _worker_table(snapshot.workers, shown_workers)]
    return Group(*parts)


def _header(snapshot: Snapshot, url: str, age: float | None, keys: str) -> Text:
    text = Text.assemble(("shardmill ", "bold"), url, no_wrap=True, overflow="ellipsis")
    if snapshot.error:
        old = f"; data is {seconds(age)} old" if age is not None else ""
        text.append(f"   {printable(snapshot.error)}{old}; trying again", style="red")
    elif not snapshot.now:
        text.append("   reading …", style="dim")
    else:
        text.append(f"   {keys}", style="dim")
    return text


def _counts(now: dict[str, Any]) -> Text:
    text = Text(no_wrap=True, overflow="ellipsis")
    for state in _LIVE:
        live = now["live"].get(state, {"items": [], "more": False})
        number = f"{len(live['items'])}{'+' if live['more'] else ''}"
        text.append(f"{number} {state.lower()}   ", style=_STYLES[state] if live["items"] else "dim")
    text.append(f"{len(now['failed'])} failed in a day   ", style="red" if now["failed"] else "dim")
    text.append(f"{len(now['ended'])}{'+' if now['endedMore'] else ''} ended in an hour")
    return text


def _jobs(now: dict[str, Any]) -> list[dict[str, Any]]:
    """Live Jobs by state, then failed Jobs, then ended Jobs, each once."""
    live = [job for state in _LIVE for job in now["live"].get(state, {}).get("items", [])]
    found = {job["id"]: job for job in [*live, *now["failed"], *now["ended"]]}
    return list(found.values())


class _List:
    """A table that fits the terminal, like the tables of other commands: states and times stay readable."""

    def __init__(self, *headings: str) -> None:
        self._headings = headings
        self._rows: list[tuple[RenderableType, ...]] = []

    def add_row(self, *cells: RenderableType) -> None:
        self._rows.append(cells)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        headings = [len(each) for each in self._headings]
        columns = zip(headings, *(map(_width, row) for row in self._rows), strict=True)
        widths = fit([max(column) for column in columns], headings, options.max_width)
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", pad_edge=False)
        for heading, width in zip(self._headings, widths, strict=False):
            table.add_column(heading, no_wrap=True, overflow="ellipsis", width=width)
        for row in self._rows:
            table.add_row(*row[: len(widths)])
        yield table


def _width(cell: RenderableType) -> int:
    return text_width(str(cell)) if isinstance(cell, (str, Text)) else BAR_WIDTH


def _job_table(
    jobs: list[dict[str, Any]], room: int, progress: dict[str, tuple[int, int]], now: datetime
) -> RenderableType:
    table = _List("STATE", "JOB", "TRIGGER", "TIME", "TASKS", "NOTES")
    shown, hidden = _first(jobs, room)
    for job in shown:
        state, ended, total = job["state"], *progress.get(job["id"], (0, 0))
        bar: RenderableType = (
            ProgressBar(total, ended, complete_style="cyan") if total and state == "RUNNING" else ""
        )
        table.add_row(
            Text(state, style=_STYLES.get(state, "")),
            Text(printable(job["jobName"])),
            Text(printable(job["trigger"])),
            _elapsed(job, now),
            bar,
            Text(printable(_notes(job, ended, total))),
        )
    return _with_rest(table, hidden, "jobs")


def _notes(job: dict[str, Any], ended: int, total: int) -> str:
    late = "late; " if job.get("late") else ""
    counted = f"{ended} of {total} tasks; " if total and job["state"] == "RUNNING" else ""
    return f"{late}{counted}{job.get('notes') or ''}".removesuffix("; ")


def _group_table(groups: list[dict[str, Any]], room: int) -> RenderableType:
    table = _List("GROUP", "KIND", "WORKERS", "SLOTS", "HELD", "NOTES")
    shown, hidden = _first(groups, room)
    for group in shown:
        idle = group["kind"] == "pull" and not group["online"]
        notes = group.get("suspended") or ("no worker is online" if idle else "")
        table.add_row(
            Text(group["name"]),
            group["kind"],
            Text(str(group["online"]) if group["kind"] == "pull" else "-", style="red" if idle else ""),
            str(group["slots"]),
            str(group["held"]),
            Text(printable(notes), style="yellow"),
        )
    return _with_rest(table, hidden, "groups")


def _worker_table(workers: list[dict[str, Any]], room: int) -> RenderableType:
    table = _List("WORKER", "STATUS", "GROUPS", "SLOTS", "TASKS", "DONE", "FAILED")
    busy_first = sorted(workers, key=lambda each: (-each["status"], -each["remainTasks"], each["name"]))
    shown, hidden = _first(busy_first, room)
    for worker in shown:
        status = _WORKER_STATES.get(worker["status"], str(worker["status"]))
        table.add_row(
            Text(printable(worker["name"])),
            Text(status, style=_STYLES.get(status, "")),
            ",".join(worker["groups"]),
            str(worker["slots"]),
            str(worker["remainTasks"]),
            str(worker["totalCompleted"]),
            Text(str(worker["totalFailed"]), style="red" if worker["totalFailed"] else ""),
        )
    return _with_rest(table, hidden, "workers")


def _first(items: list[dict[str, Any]], room: int) -> tuple[list[dict[str, Any]], int]:
    """The items that fit, and the number of hidden ones; the line that reports it is counted, too."""
    if len(items) <= room:
        return items, 0
    shown = items[: max(0, room - 1)]
    return shown, len(items) - len(shown)


def _with_rest(table: _List, hidden: int, noun: str) -> RenderableType:
    return Group(table, Text(f"… {hidden} more {noun}", style="dim")) if hidden else table


def _elapsed(job: dict[str, Any], now: datetime) -> str:
    start = job.get("startedTime") or job["createTime"]
    end = datetime.fromisoformat(job["completedTime"]) if job.get("completedTime") else now
    return seconds(max(0.0, (end - datetime.fromisoformat(start)).total_seconds()))
