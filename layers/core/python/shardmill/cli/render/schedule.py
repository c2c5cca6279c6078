"""Show schedules, their next times and their past firings."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from shardmill.cli import output
from shardmill.cli.hints import without_routes
from shardmill.cli.parsing import format_duration

if TYPE_CHECKING:
    from shardmill.client.client import Client
    from shardmill.model.time.schedule import Firing, SavedSchedule, When

SHOWN_TIMES = 3
SHOWN_FIRINGS = 20

COLUMNS: dict[str, Callable[[SavedSchedule], object]] = {
    "JOB": lambda schedule: schedule.job_name,
    "SCHEDULE": lambda schedule: schedule.schedule_id,
    "STATUS": lambda schedule: status(schedule),
    "EXPRESSION": lambda schedule: _expression(schedule),
    "TIMEZONE": lambda schedule: schedule.timezone,
    "NEXT": lambda schedule: schedule.next_time,
    "LAST": lambda schedule: _last(schedule),
}
TIME_COLUMNS: dict[str, Callable[[When], object]] = {
    "UTC": lambda when: f"{when.utc:%Y-%m-%dT%H:%M:%SZ}",
    "LOCAL": lambda when: when.local,
}


def status(schedule: SavedSchedule) -> str:
    return "ON" if schedule.status else "OFF"


def show_schedule(client: Client, schedule: SavedSchedule) -> None:
    """Print the fields of a schedule and its next times, even if it is off."""
    name = f"{schedule.job_name} {schedule.schedule_id}"
    output.line(f"{output.paint(name, 1)} {output.paint_state(status(schedule))}")
    days = (
        f"{word} {day}" for word, day in (("from", schedule.start_date), ("to", schedule.end_date)) if day
    )
    late = schedule.max_lateness_seconds
    output.details(
        {
            "expression": _expression(schedule),
            "meaning": schedule.meaning,
            "timezone": schedule.timezone,
            "days": " ".join(days),
            "overlap": schedule.overlap,
            "catch-up": schedule.catch_up
            + ("" if late is None else f", at most {format_duration(late)} late"),
            "priority": schedule.priority,
            "steps": " ".join(str(step.get("stepName", step.get("name"))) for step in schedule.steps),
            "params": " ".join(f"{name}={value}" for name, value in schedule.params.items()),
            "trigger": schedule.trigger_format,
            "version": f"{schedule.version}, saved {output.cell(schedule.update_time)} "
            f"by {output.cell(schedule.update_user)}",
        }
    )
    upcoming = client.next_times(schedule.job_name, schedule.schedule_id, SHOWN_TIMES)
    for when in upcoming:
        local = "" if schedule.timezone == "UTC" else f" (local {when.local})"
        output.details({"next": f"{output.cell(when.utc)}{local}"})
    if not upcoming:
        waits = schedule.status and schedule.awaited_job
        output.details({"next": "after the end of the running job" if waits else "never"})


def show_firings(schedule: SavedSchedule) -> None:
    """Print the latest firings, newest first."""
    if not schedule.history:
        return
    columns: dict[str, Callable[[Firing], object]] = {
        "TIME": _period,
        "OUTCOME": lambda firing: firing.outcome,
        "JOB": lambda firing: f"{schedule.job_name}/{firing.trigger}" if firing.job_id else None,
        "REASON": lambda firing: without_routes(firing.reason or ""),
    }
    output.line()
    output.listing(schedule.history[:SHOWN_FIRINGS], columns, as_json=False)
    hidden = len(schedule.history) - SHOWN_FIRINGS
    if hidden > 0:
        output.line(f"… and {hidden} more; use --json to list all")


def _period(firing: Firing) -> str:
    until = f" to {output.cell(firing.until)}" if firing.until else ""
    return f"{output.cell(firing.time)}{until}"


def _expression(schedule: SavedSchedule) -> str:
    if schedule.cron is not None:
        return f"cron {schedule.cron}"
    if schedule.delay_seconds is not None:
        return f"{format_duration(schedule.delay_seconds)} after the end"
    if schedule.every_months is not None:
        return "every month" if schedule.every_months == 1 else f"every {schedule.every_months} months"
    if schedule.times:
        count = len(set(schedule.times))
        return f"{count} listed time{'' if count == 1 else 's'}"
    if schedule.every_seconds is not None:
        return f"every {format_duration(schedule.every_seconds)}"
    return f"at {output.cell(schedule.at)}"


def _last(schedule: SavedSchedule) -> str | None:
    newest = next(iter(schedule.history), None)
    return f"{newest.outcome} {output.cell(newest.time)}" if newest else None
