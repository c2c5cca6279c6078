"""schedule backfill, backfills, stop: run past times of a schedule."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

import typer

from shardmill.cli import output
from shardmill.cli.exits import JOB_FAILED
from shardmill.cli.hints import without_routes
from shardmill.cli.options import JobName, Json, ScheduleId, Timeout, Token, Url
from shardmill.cli.parsing import Moment, parse_moment, resolve_moments
from shardmill.cli.render.bars import Count, count_progress
from shardmill.cli.wait import check_timeout, waiting
from shardmill.cli.watch import Watch, show_list

if TYPE_CHECKING:
    from shardmill.client.client import Client
    from shardmill.model.time.backfill import Backfill

From = Annotated[
    Moment | None,
    typer.Option(
        "--from",
        metavar="TIME",
        parser=parse_moment,
        show_default=False,
        help="Start of the range (inclusive).",
    ),
]
To = Annotated[
    Moment | None,
    typer.Option(
        "--to", metavar="TIME", parser=parse_moment, show_default=False, help="End of the range (exclusive)."
    ),
]
Times = Annotated[
    list[Moment] | None,
    typer.Option(
        "--time",
        metavar="TIME",
        parser=parse_moment,
        show_default=False,
        help="A time of the schedule, or a date for all its times on that day. Repeatable.",
    ),
]
Parallel = Annotated[
    int, typer.Option("--parallel", metavar="N", min=1, max=100, help="Maximum number of concurrent jobs.")
]
Order = Annotated[
    Literal["asc", "desc"], typer.Option("--order", help="Run the oldest or the newest time first.")
]
RunSucceeded = Annotated[
    bool, typer.Option("--force", help="Also run times whose job has already succeeded.")
]
Wait = Annotated[
    bool, typer.Option("--wait", help="Wait for all jobs to end. Exits with code 4 if any fails.")
]
BackfillNumber = Annotated[
    int, typer.Argument(metavar="NUMBER", min=1, max=999_999, help="Number of the backfill.")
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
    "USER": lambda backfill: backfill.submit_user,
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
    force: RunSucceeded = False,
    wait: Wait = False,
    timeout: Timeout = None,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Run past times of a schedule, one job for each time.

    Runs all times from --from (inclusive) to --to (exclusive), or those given with --time. For --from and
    --to, a date means 00:00 in the schedule's time zone, and a time without an offset is UTC. Times whose job
    has already succeeded are skipped.

    \b
    Examples:
      shardmill schedule backfill balance-report nightly --from 2026-01-01 --to 2026-02-01 --wait
      shardmill schedule backfill balance-report nightly --time 2026-01-21 --force --parallel 4
      shardmill schedule backfill balance-report hourly --from 2026-01-01T06:00:00Z --to 2026-01-02
    """
    from shardmill.client.client import Client

    check_timeout(wait, timeout)
    bounds = _bounds(start, end, times)
    with Client(url, token) as client:
        first, last = resolve_moments(client, job_name, schedule_id, bounds) or (None, None)
        started = client.backfill(
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
            _wait(client, started, timeout, as_json)
    _show(started, as_json)


def _bounds(start: Moment | None, end: Moment | None, times: list[Moment] | None) -> list[Moment]:
    """Return the start and the end of the range, or nothing if single times are given."""
    given = [each for each in (start, end) if each]
    if len(given) != (0 if times else 2):
        raise typer.BadParameter("give either both --from and --to, or --time")
    if start and end and start.is_date == end.is_date and end.value <= start.value:
        raise typer.BadParameter("must be after --from; it is exclusive", param_hint="--to")
    return given


def backfills(
    job_name: JobName,
    schedule_id: ScheduleId,
    watch: Watch = False,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """List the backfills of a schedule, newest first.

    \b
    Examples:
      shardmill schedule backfills balance-report nightly --watch
      shardmill schedule backfills balance-report nightly --json | jq '.[0].state'
    """
    from shardmill.client.client import Client

    with Client(url, token) as client:
        show_list(lambda: client.backfills(job_name, schedule_id), _COLUMNS, as_json, watch)


def stop(
    job_name: JobName,
    schedule_id: ScheduleId,
    number: BackfillNumber,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Stop a backfill: no more jobs start. Its running jobs continue.

    \b
    Examples:
      shardmill schedule stop balance-report nightly 3
    """
    from shardmill.client.client import Client

    with Client(url, token) as client:
        _show(client.stop_backfill(job_name, schedule_id, number), as_json)


def _wait(client: Client, started: Backfill, timeout: float | None, as_json: bool) -> NoReturn:
    """Show progress until the backfill ends, then the backfill; exit with its exit code."""
    where = f"{started.job_name} {started.schedule_id}"
    how_to_stop = f"the backfill continues; to stop it, run: shardmill schedule stop {where} {started.number}"
    how_to_see = f"to see its progress, run: shardmill schedule backfills {where}"
    with waiting(as_json, how_to_stop, how_to_see), count_progress() as show:
        show(count(started))
        found = client.wait_backfill(
            started.job_name,
            started.schedule_id,
            started.number,
            timeout,
            lambda current: show(count(current)),
        )
    _show(found, as_json)
    raise typer.Exit(exit_code(found))


def _show(backfill: Backfill, as_json: bool) -> None:
    if as_json:
        output.json_document(backfill)
    else:
        output.line(str(count(backfill)))


def count(backfill: Backfill) -> Count:
    numbers = {
        "done": backfill.success,
        "failed": backfill.failed,
        "skipped": backfill.skipped,
        "running": backfill.running,
    }
    name = f"backfill {backfill.number} of {backfill.job_name} {backfill.schedule_id} {backfill.state}"
    return Count(name, backfill.total, backfill.success + backfill.failed + backfill.skipped, numbers)


def exit_code(backfill: Backfill) -> int:
    """Return the exit code for an ended backfill: 0 if every time has succeeded or was skipped."""
    if backfill.success + backfill.skipped == backfill.total:
        return 0
    not_run = backfill.total - count(backfill).ended
    words = [f"{backfill.failed} failed"] if backfill.failed else []
    words += [f"{not_run} not run"] if not_run else []
    notes = f": {without_routes(backfill.notes)}" if backfill.notes else ""
    output.message(f"{' and '.join(words)} of {output.plural(backfill.total, 'time')}{notes}")
    output.message(f"to list the jobs, run: shardmill jobs --job {backfill.job_name}")
    return JOB_FAILED
