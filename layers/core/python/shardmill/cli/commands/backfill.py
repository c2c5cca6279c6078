"""schedule backfill, backfills, stop"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

import typer

from shardmill.cli import output
from shardmill.cli.exits import JOB_FAILED
from shardmill.cli.options import JobName, Json, ScheduleId, Timeout, Token, Url
from shardmill.cli.output import message
from shardmill.cli.parsing import Moment, instants, moment
from shardmill.cli.render.bars import Count, shown_counts
from shardmill.cli.render.hints import without_routes
from shardmill.cli.wait import check_timeout, watched

if TYPE_CHECKING:
    from shardmill.client import Client
    from shardmill.model.time.schedule import Backfill

From = Annotated[
    Moment | None,
    typer.Option(
        "--from", metavar="TIME", parser=moment, show_default=False, help="The first time, or its date."
    ),
]
To = Annotated[
    Moment | None,
    typer.Option(
        "--to", metavar="TIME", parser=moment, show_default=False, help="The end, which is not included."
    ),
]
Times = Annotated[
    list[Moment] | None,
    typer.Option(
        "--time",
        metavar="TIME",
        parser=moment,
        show_default=False,
        help="One of its times, or a date for all times of that day; repeatable.",
    ),
]
Parallel = Annotated[
    int, typer.Option("--parallel", metavar="N", min=1, max=100, help="How many Jobs at once.")
]
Order = Annotated[Literal["asc", "desc"], typer.Option("--order", help="Oldest or newest first.")]
Again = Annotated[bool, typer.Option("--force", help="Also the times whose Job succeeded already.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until all have ended; exit code 4 if any failed.")]
Number = Annotated[
    int, typer.Argument(metavar="NUMBER", min=1, max=999_999, help="The number of the backfill.")
]

_COLUMNS: dict[str, Callable[[Backfill], object]] = {
    "NUMBER": lambda backfill: backfill.number,
    "STATE": lambda backfill: backfill.state,
    "TOTAL": lambda backfill: backfill.total,
    "DONE": lambda backfill: backfill.success,
    "FAILED": lambda backfill: backfill.failed,
    "SKIPPED": lambda backfill: backfill.skipped,
    "RUNNING": lambda backfill: backfill.running,
    "WAITING": lambda backfill: backfill.waiting,
    "STARTED": lambda backfill: backfill.create_time,
    "BY": lambda backfill: backfill.submit_user,
    "NOTES": lambda backfill: without_routes(backfill.notes),
}


def backfill(
    job_name: JobName,
    schedule_id: ScheduleId,
    start: From = None,
    end: To = None,
    times: Times = None,
    parallel: Parallel = 1,
    order: Order = "asc",
    force: Again = False,
    wait: Wait = False,
    timeout: Timeout = None,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Run past times of a schedule, one Job each.

    All from --from on and before --to, which is not included itself, or those named with --time. A date
    given to --from or --to is 00:00 of that day in the schedule's zone; a time without an offset is UTC.
    Times whose Job succeeded are skipped.

    \b
    Examples:
      shardmill schedule backfill balance-report nightly --from 2026-01-01 --to 2026-02-01 --wait
      shardmill schedule backfill balance-report nightly --time 2026-01-21 --force --parallel 4
      shardmill schedule backfill balance-report hourly --from 2026-01-01T06:00:00Z --to 2026-01-02
    """
    from shardmill.client import Client

    check_timeout(wait, timeout)
    bounds = _bounds(start, end, times)
    with Client(url, token) as client:
        first, last = instants(client, job_name, schedule_id, bounds) or (None, None)
        begun = client.backfill(
            job_name,
            schedule_id,
            start=first,
            end=last,
            times=[each.text for each in times or ()],
            parallel=parallel,
            order=order,
            force=force,
        )
        if wait:
            _wait(client, begun, timeout, as_json)
    _tell(begun, as_json)


def _bounds(start: Moment | None, end: Moment | None, times: list[Moment] | None) -> list[Moment]:
    """The two ends of a range; none if there are separate times."""
    given = [each for each in (start, end) if each]
    if len(given) != (0 if times else 2):
        raise typer.BadParameter("give either both --from and --to, or --time")
    if start and end and start.is_day == end.is_day and end.value <= start.value:
        raise typer.BadParameter("must be after --from; it is not included itself", param_hint="--to")
    return given


def backfills(
    job_name: JobName, schedule_id: ScheduleId, url: Url = None, token: Token = None, as_json: Json = False
) -> None:
    """List the backfills of a schedule, newest first.

    \b
    Examples:
      shardmill schedule backfills balance-report nightly
      shardmill schedule backfills balance-report nightly --json | jq '.[0].state'
    """
    from shardmill.client import Client

    with Client(url, token) as client:
        output.listing(client.backfills(job_name, schedule_id), _COLUMNS, as_json)


def stop(
    job_name: JobName,
    schedule_id: ScheduleId,
    number: Number,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Stop a backfill: it starts no more Jobs; those that run go on.

    \b
    Examples:
      shardmill schedule stop balance-report nightly 3
    """
    from shardmill.client import Client

    with Client(url, token) as client:
        _tell(client.stop_backfill(job_name, schedule_id, number), as_json)


def _wait(client: Client, begun: Backfill, timeout: float | None, as_json: bool) -> NoReturn:
    """Show progress until the end, then the backfill; ends the command."""
    where = f"{begun.job_name} {begun.schedule_id}"
    stop_it = f"the backfill goes on; stop it with: shardmill schedule stop {where} {begun.number}"
    see_it = f"see it with: shardmill schedule backfills {where}"
    with watched(as_json, stop_it, see_it), shown_counts() as show:
        show(count(begun))
        found = client.wait_backfill(
            begun.job_name,
            begun.schedule_id,
            begun.number,
            timeout,
            lambda seen: show(count(seen)),
        )
    _tell(found, as_json)
    raise typer.Exit(verdict(found))


def _tell(backfill: Backfill, as_json: bool) -> None:
    if as_json:
        output.json_document(backfill)
    else:
        output.line(str(count(backfill)))


if TYPE_CHECKING:
    from shardmill.model.time.schedule import Backfill


def count(backfill: Backfill) -> Count:
    numbers = {
        "done": backfill.success,
        "failed": backfill.failed,
        "skipped": backfill.skipped,
        "running": backfill.running,
    }
    name = f"backfill {backfill.number} of {backfill.job_name} {backfill.schedule_id} {backfill.state}"
    return Count(name, backfill.total, backfill.success + backfill.failed + backfill.skipped, numbers)


def verdict(backfill: Backfill) -> int:
    """The exit code for a backfill that is over: 0 if each of its times was run or need not be."""
    if backfill.success + backfill.skipped == backfill.total:
        return 0
    left = backfill.total - count(backfill).ended
    words = [f"{backfill.failed} failed"] if backfill.failed else []
    words += [f"{left} did not run"] if left else []
    notes = f": {without_routes(backfill.notes)}" if backfill.notes else ""
    message(f"of {backfill.total} times {' and '.join(words)}{notes}")
    message(f"see the Jobs with: shardmill jobs --job {backfill.job_name}")
    return JOB_FAILED
