"""Schedules for people to read: when they fire, how they fared, when they fire next."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from shardmill.cli import output
from shardmill.cli.parsing import span_text
from shardmill.cli.render.hints import without_routes

if TYPE_CHECKING:
    from shardmill.client import Client
    from shardmill.model.time.schedule import Firing, SavedSchedule, When

SHOWN_TIMES = 3
SHOWN_FIRINGS = 20

COLUMNS: dict[str, Callable[[SavedSchedule], object]] = {
    "JOB": lambda schedule: schedule.job_name,
    "SCHEDULE": lambda schedule: schedule.schedule_id,
    "STATUS": lambda schedule: status(schedule),
    "TIMES": lambda schedule: _times(schedule),
    "ZONE": lambda schedule: schedule.timezone,
    "NEXT": lambda schedule: schedule.next_time,
    "LAST": lambda schedule: _last(schedule),
}
TIME_COLUMNS: dict[str, Callable[[When], object]] = {
    "UTC": lambda when: when.utc,
    "LOCAL": lambda when: when.local,
}


def status(schedule: SavedSchedule) -> str:
    return "ON" if schedule.status else "OFF"


def show_schedule(client: Client, schedule: SavedSchedule) -> None:
    """Its fields and its next times, also if it is off."""
    name = f"{schedule.job_name} {schedule.schedule_id}"
    output.line(f"{output.paint(name, 1)} {output.paint_state(status(schedule))}")
    days = (
        f"{word} {day}" for word, day in (("from", schedule.start_date), ("to", schedule.end_date)) if day
    )
    late = schedule.max_lateness_seconds
    output.facts(
        {
            "times": _times(schedule),
            "zone": schedule.timezone,
            "days": " ".join(days),
            "overlap": schedule.overlap,
            "catch-up": schedule.catch_up + ("" if late is None else f", {span_text(late)} late at most"),
            "params": " ".join(f"{name}={value}" for name, value in schedule.params.items()),
            "trigger": schedule.trigger_format,
            "version": f"{schedule.version}, saved {output.cell(schedule.update_time)} "
            f"by {output.cell(schedule.update_user)}",
        }
    )
    coming = client.next_times(schedule.job_name, schedule.schedule_id, SHOWN_TIMES)
    for when in coming:
        local = "" if schedule.timezone == "UTC" else f" (local {when.local})"
        output.facts({"next": f"{output.cell(when.utc)}{local}"})
    if not coming:
        output.facts({"next": "never again"})


def show_history(schedule: SavedSchedule) -> None:
    """The last firings, newest first."""
    if not schedule.history:
        return
    columns: dict[str, Callable[[Firing], object]] = {
        "TIME": _span,
        "OUTCOME": lambda firing: firing.outcome,
        "JOB": lambda firing: f"{schedule.job_name}/{firing.trigger}" if firing.job_id else None,
        "REASON": lambda firing: without_routes(firing.reason or ""),
    }
    output.line()
    output.listing(schedule.history[:SHOWN_FIRINGS], columns, as_json=False)
    more = len(schedule.history) - SHOWN_FIRINGS
    if more > 0:
        output.line(f"… and {more} more; with --json all of them")


def _span(firing: Firing) -> str:
    until = f" to {output.cell(firing.until)}" if firing.until else ""
    return f"{output.cell(firing.time)}{until}"


def _times(schedule: SavedSchedule) -> str:
    if schedule.cron is not None:
        return f"cron {schedule.cron}"
    if schedule.every_seconds is not None:
        return f"every {span_text(schedule.every_seconds)}"
    return f"at {output.cell(schedule.at)}"


def _last(schedule: SavedSchedule) -> str | None:
    newest = next(iter(schedule.history), None)
    return f"{newest.outcome} {output.cell(newest.time)}" if newest else None
