"""schedule save"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from shardmill.cli import output
from shardmill.cli.options import JobName, Json, Param, ScheduleId, Token, Url
from shardmill.cli.parsing import Moment, moment, params, span
from shardmill.cli.render.schedule import show_schedule


def _text(option: str, metavar: str, help: str) -> Any:
    return typer.Option(option, metavar=metavar, show_default=False, help=help)


Cron = Annotated[str | None, _text("--cron", "TEXT", "Five fields, or @daily and the like.")]
Every = Annotated[
    int | None,
    typer.Option(
        "--every", metavar="TIME", parser=span, show_default=False, help="Seconds, or such as 15m, 2h, 1d."
    ),
]
At = Annotated[
    Moment | None,
    typer.Option(
        "--at",
        metavar="TIME",
        parser=moment,
        show_default=False,
        help="Once; a date is its 00:00 in that zone.",
    ),
]
Timezone = Annotated[
    str | None, typer.Option("--timezone", metavar="ZONE", show_default="UTC", help="Such as Europe/Berlin.")
]
Start = Annotated[str | None, _text("--start", "DATE", "The first day on which it fires.")]
End = Annotated[str | None, _text("--end", "DATE", "The last day on which it fires.")]
Overlap = Annotated[
    Literal["allow", "skip", "queue", "replace"] | None,
    typer.Option("--overlap", show_default="allow", help="If the Job before has not ended."),
]
CatchUp = Annotated[
    Literal["none", "latest", "all"] | None,
    typer.Option("--catch-up", show_default="latest", help="Which of the times that were missed it fires."),
]
MaxLateness = Annotated[
    int | None,
    typer.Option(
        "--max-lateness",
        metavar="TIME",
        parser=span,
        show_default=False,
        help="Fire no time later than that: seconds, or such as 15m, 2h, 1d.",
    ),
]
TriggerFormat = Annotated[
    str | None, _text("--trigger-format", "FORMAT", "Triggers by the local time, such as %Y%m%d.")
]
Off = Annotated[bool, typer.Option("--off", help="Save it switched off.")]
File = Annotated[
    str | None, _text("--file", "FILE", "The whole schedule in JSON or YAML; - is standard input.")
]

# Where the fields of a schedule stand on the command line.
_PLACES = {
    "jobName": "JOB",
    "scheduleId": "ID",
    "cron": "--cron",
    "everySeconds": "--every",
    "at": "--at",
    "timezone": "--timezone",
    "startDate": "--start",
    "endDate": "--end",
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
    at: At = None,
    timezone: Timezone = None,
    start: Start = None,
    end: End = None,
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
    """Save a schedule of a definition.

    As a whole: what is not given has its default, also if there was such a schedule. Exactly one of --cron,
    --every, --at and --file. Shows the schedule and its next three times.

    \b
    Examples:
      shardmill schedule save balance-report nightly --cron '30 4 * * *' --timezone Europe/Berlin
      shardmill schedule save balance-report often --every 15m --overlap skip --param region=eu
      shardmill schedule save balance-report once --at 2026-12-31T23:00:00Z
      shardmill schedule save balance-report nightly --file nightly.yaml
    """
    from shardmill.client import Client

    given = {
        "cron": cron,
        "everySeconds": every,
        "at": at and at.begins(timezone or "UTC").isoformat(),
        "timezone": timezone,
        "startDate": start,
        "endDate": end,
        "overlap": overlap,
        "catchUp": catch_up,
        "maxLatenessSeconds": max_lateness,
        "params": params(param or ()) or None,
        "triggerFormat": trigger_format,
        "status": 0 if off else None,
    }
    fields = {name: value for name, value in given.items() if value is not None}
    document = _checked(fields, job_name, schedule_id) if file is None else _loaded(file, fields)
    with Client(url, token) as client:
        saved = client.save_schedule(job_name, schedule_id, document)
        if as_json:
            output.json_document(saved)
        else:
            show_schedule(client, saved)


def _loaded(file: str, fields: dict[str, Any]) -> Any:
    """What a file says; the server judges it."""
    from shardmill.client.documents import load_document

    if fields:
        named = ", ".join(_PLACES[name] for name in fields)
        raise typer.BadParameter(f"is the whole schedule and cannot stand with {named}", param_hint="--file")
    return load_document(file)


def _checked(fields: dict[str, Any], job_name: str, schedule_id: str) -> dict[str, Any]:
    """What the options say, if it can be a schedule."""
    from shardmill.model.time.schedule import check_schedule

    if sum(name in fields for name in ("cron", "everySeconds", "at")) != 1:
        raise typer.BadParameter("give exactly one of --cron, --every, --at and --file")
    _, faults = check_schedule(fields, job_name, schedule_id)
    if faults:
        places = (_PLACES.get(fault.pointer.split("/")[1]) if fault.pointer else "" for fault in faults)
        told = (f"{place} {fault.message}".strip() for place, fault in zip(places, faults, strict=True))
        raise typer.BadParameter("; ".join(told))
    return fields
