"""schedule save: create or replace a schedule."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from shardmill.cli import output
from shardmill.cli.options import JobName, Json, Param, ScheduleId, Token, Url
from shardmill.cli.parsing import Moment, parse_duration, parse_moment, parse_params
from shardmill.cli.render.schedule import show_schedule


def _text(option: str, metavar: str, help: str) -> Any:
    return typer.Option(option, metavar=metavar, show_default=False, help=help)


Cron = Annotated[
    str | None,
    _text("--cron", "TEXT", "Five cron fields, @daily and the like, cron(…), rate(…), at(…) or quartz(…)."),
]
Every = Annotated[
    int | None,
    typer.Option(
        "--every",
        metavar="DURATION",
        parser=parse_duration,
        show_default=False,
        help="Interval: seconds, or 15m, 2h, 1d.",
    ),
]
At = Annotated[
    Moment | None,
    typer.Option(
        "--at",
        metavar="TIME",
        parser=parse_moment,
        show_default=False,
        help="Fire once at this time. A date means 00:00 in --timezone.",
    ),
]
Timezone = Annotated[
    str | None,
    typer.Option(
        "--timezone", metavar="ZONE", show_default="UTC", help="IANA time zone, such as Europe/Berlin."
    ),
]
EveryMonths = Annotated[
    int | None,
    typer.Option(
        "--every-months",
        metavar="N",
        min=1,
        show_default=False,
        help="Interval in months, counted from --start.",
    ),
]
Delay = Annotated[
    int | None,
    typer.Option(
        "--delay",
        metavar="DURATION",
        parser=parse_duration,
        show_default=False,
        help="Delay after the end of the previous job: seconds, or 15m, 2h, 1d.",
    ),
]
Times = Annotated[
    list[Moment] | None,
    typer.Option(
        "--time",
        metavar="TIME",
        parser=parse_moment,
        show_default=False,
        help="Fire at this time; may be repeated. A date means 00:00 in --timezone.",
    ),
]
Start = Annotated[
    str | None, _text("--start", "TIME", "First day or instant: a date, or a time with offset.")
]
End = Annotated[str | None, _text("--end", "TIME", "Last day or instant: a date, or a time with offset.")]
MaxTimes = Annotated[
    int | None,
    typer.Option(
        "--max-times", metavar="N", min=1, show_default=False, help="Number of times, counted from --start."
    ),
]
Priority = Annotated[
    int | None,
    typer.Option(
        "--priority", metavar="N", show_default=False, help="Priority of the jobs; higher is first."
    ),
]
Overlap = Annotated[
    Literal["allow", "skip", "queue", "replace"] | None,
    typer.Option("--overlap", show_default="allow", help="Action if the previous job has not ended."),
]
CatchUp = Annotated[
    Literal["none", "latest", "all"] | None,
    typer.Option("--catch-up", show_default="latest", help="Which missed times to fire."),
]
MaxLateness = Annotated[
    int | None,
    typer.Option(
        "--max-lateness",
        metavar="DURATION",
        parser=parse_duration,
        show_default=False,
        help="Skip times that are missed by more than this: seconds, or 15m, 2h, 1d.",
    ),
]
TriggerFormat = Annotated[
    str | None,
    _text("--trigger-format", "FORMAT", "strftime format of the triggers, in local time, such as %Y%m%d."),
]
Off = Annotated[bool, typer.Option("--off", help="Save the schedule switched off.")]
File = Annotated[
    str | None, _text("--file", "FILE", "Read the schedule from a JSON or YAML file; - is standard input.")
]

# The argument or option that sets each field.
_OPTIONS = {
    "jobName": "JOB",
    "scheduleId": "ID",
    "cron": "--cron",
    "everySeconds": "--every",
    "everyMonths": "--every-months",
    "delaySeconds": "--delay",
    "at": "--at",
    "times": "--time",
    "timezone": "--timezone",
    "startDate": "--start",
    "endDate": "--end",
    "maxTimes": "--max-times",
    "priority": "--priority",
    "overlap": "--overlap",
    "catchUp": "--catch-up",
    "maxLatenessSeconds": "--max-lateness",
    "params": "--param",
    "triggerFormat": "--trigger-format",
    "status": "--off",
}


def save(
    job_name: JobName,
    schedule_id: ScheduleId,
    cron: Cron = None,
    every: Every = None,
    every_months: EveryMonths = None,
    delay: Delay = None,
    at: At = None,
    time: Times = None,
    timezone: Timezone = None,
    start: Start = None,
    end: End = None,
    max_times: MaxTimes = None,
    priority: Priority = None,
    overlap: Overlap = None,
    catch_up: CatchUp = None,
    max_lateness: MaxLateness = None,
    param: Param = None,
    trigger_format: TriggerFormat = None,
    off: Off = False,
    file: File = None,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Create or replace a schedule of a definition.

    Requires one of --cron, --every, --every-months, --delay, --at, --time and --file. Replaces an existing
    schedule completely: options that are not given return to their defaults. Shows the saved schedule and its
    next three times.

    \b
    Examples:
      shardmill schedule save balance-report nightly --cron '30 4 * * *' --timezone Europe/Berlin
      shardmill schedule save balance-report often --every 15m --overlap skip --param region=eu
      shardmill schedule save balance-report once --at 2026-12-31T23:00:00Z
      shardmill schedule save balance-report quarterly --every-months 3 --start 2027-01-31T06:00:00Z
      shardmill schedule save balance-report nightly --file nightly.yaml
    """
    from shardmill.client.client import Client

    values = {
        "cron": cron,
        "everySeconds": every,
        "everyMonths": every_months,
        "delaySeconds": delay,
        "at": at and at.to_utc(timezone or "UTC").isoformat(),
        "times": [each.to_utc(timezone or "UTC").isoformat() for each in time or ()] or None,
        "timezone": timezone,
        "startDate": start,
        "endDate": end,
        "maxTimes": max_times,
        "priority": priority,
        "overlap": overlap,
        "catchUp": catch_up,
        "maxLatenessSeconds": max_lateness,
        "params": parse_params(param or ()) or None,
        "triggerFormat": trigger_format,
        "status": 0 if off else None,
    }
    fields = {name: value for name, value in values.items() if value is not None}
    document = _validate(fields, job_name, schedule_id) if file is None else _load(file, fields)
    with Client(url, token) as client:
        saved = client.save_schedule(job_name, schedule_id, document)
        if as_json:
            output.json_document(saved)
        else:
            show_schedule(client, saved)


def _load(file: str, fields: dict[str, Any]) -> Any:
    """Read the document from a file; the server validates it."""
    from shardmill.client.documents import load_document

    if fields:
        named = ", ".join(_OPTIONS[name] for name in fields)
        raise typer.BadParameter(
            f"defines the whole schedule and cannot be combined with {named}", param_hint="--file"
        )
    return load_document(file)


def _validate(fields: dict[str, Any], job_name: str, schedule_id: str) -> dict[str, Any]:
    """Return the fields if they form a valid schedule; report all faults at once otherwise."""
    from shardmill.model.time.schedule import check_schedule

    kinds = ("cron", "everySeconds", "everyMonths", "delaySeconds", "at", "times")
    if sum(name in fields for name in kinds) != 1:
        raise typer.BadParameter(
            "give one of --cron, --every, --every-months, --delay, --at, --time and --file"
        )
    _, faults = check_schedule(fields, job_name, schedule_id)
    if faults:
        options = (_OPTIONS.get(fault.pointer.split("/")[1]) if fault.pointer else "" for fault in faults)
        texts = (f"{option} {fault.message}".strip() for option, fault in zip(options, faults, strict=True))
        raise typer.BadParameter("; ".join(texts))
    return fields
