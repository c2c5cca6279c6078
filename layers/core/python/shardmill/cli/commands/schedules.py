"""schedule: the command group, and its subcommands list, show, next, on, off, delete and fire."""

from __future__ import annotations

from typing import Annotated

import typer

from shardmill.cli import complete, output
from shardmill.cli.commands.backfill import backfill, backfills, stop
from shardmill.cli.commands.schedule_save import save
from shardmill.cli.options import (
    JobName,
    Json,
    Param,
    ScheduleId,
    Timeout,
    Token,
    Url,
    Wait,
    pass_to_subcommand,
)
from shardmill.cli.parsing import Moment, parse_moment, parse_params, resolve_moments
from shardmill.cli.render import schedule as schedule_view
from shardmill.cli.wait import check_timeout, show_submitted
from shardmill.cli.watch import Watch, show_list

OfDefinition = Annotated[
    str | None,
    typer.Argument(
        metavar="JOB",
        show_default=False,
        help="List the schedules of this definition only.",
        autocompletion=complete.definitions,
    ),
]
Count = Annotated[
    int, typer.Option("--count", metavar="N", min=1, max=1_000, help="Number of times to show.")
]
After = Annotated[
    Moment | None,
    typer.Option(
        "--from",
        metavar="TIME",
        parser=parse_moment,
        show_default="now",
        help="Show times after TIME. A date means 00:00 in the schedule's time zone.",
    ),
]
DataTime = Annotated[
    Moment | None,
    typer.Option(
        "--data-time",
        metavar="TIME",
        parser=parse_moment,
        show_default="now",
        help="Data time of the job. A date means 00:00 in the schedule's time zone.",
    ),
]

app = typer.Typer(no_args_is_help=True)


@app.callback()
def schedule(ctx: typer.Context, url: Url = None, token: Token = None, as_json: Json = False) -> None:
    """Create, inspect, fire and backfill schedules.

    \b
    Examples:
      shardmill schedule save balance-report nightly --cron '30 4 * * *' --timezone Europe/Berlin
      shardmill schedule list
      shardmill schedule show balance-report nightly
      shardmill schedule off balance-report nightly
      shardmill schedule backfill balance-report nightly --from 2026-01-01 --to 2026-02-01 --wait
    """
    pass_to_subcommand(ctx, url, token, as_json)


app.command()(save)


@app.command("list")
def list_schedules(
    job_name: OfDefinition = None,
    watch: Watch = False,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """List all schedules, or the schedules of one definition.

    \b
    Examples:
      shardmill schedule list
      shardmill schedule list --watch
      shardmill schedule list balance-report --json | jq -r '.[].nextTime'
    """
    from shardmill.client.client import Client

    with Client(url, token) as client:
        show_list(lambda: client.schedules(job_name), schedule_view.COLUMNS, as_json, watch)


@app.command()
def show(
    job_name: JobName, schedule_id: ScheduleId, url: Url = None, token: Token = None, as_json: Json = False
) -> None:
    """Show a schedule, its next times and its latest firings.

    The output of --json can be edited and saved with `shardmill schedule save --file`.

    \b
    Examples:
      shardmill schedule show balance-report nightly
      shardmill schedule show balance-report nightly --json > nightly.json
    """
    from shardmill.client.client import Client

    with Client(url, token) as client:
        found = client.schedule(job_name, schedule_id)
        if as_json:
            output.json_document(found)
            return
        schedule_view.show_schedule(client, found)
        schedule_view.show_firings(found)


@app.command("next")
def next_times(
    job_name: JobName,
    schedule_id: ScheduleId,
    count: Count = 10,
    after: After = None,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Show the next times of a schedule.

    Shows what the schedule means in words, then its times in UTC and in its time zone, even if it is off.

    \b
    Examples:
      shardmill schedule next balance-report nightly
      shardmill schedule next balance-report nightly --count 3 --from 2026-03-28
    """
    from shardmill.client.client import Client

    with Client(url, token) as client:
        [since] = resolve_moments(client, job_name, schedule_id, [after]) if after else [None]
        found = client.upcoming(job_name, schedule_id, count, since)
    if found.meaning and not as_json:
        output.line(found.meaning)
    output.listing(found.items, schedule_view.TIME_COLUMNS, as_json)


@app.command()
def on(
    job_name: JobName, schedule_id: ScheduleId, url: Url = None, token: Token = None, as_json: Json = False
) -> None:
    """Switch a schedule on.

    Times that it missed while off are handled according to its --catch-up setting.

    \b
    Examples:
      shardmill schedule on balance-report nightly
    """
    _switch(job_name, schedule_id, True, url, token, as_json)


@app.command()
def off(
    job_name: JobName, schedule_id: ScheduleId, url: Url = None, token: Token = None, as_json: Json = False
) -> None:
    """Switch a schedule off. Its running jobs continue.

    \b
    Examples:
      shardmill schedule off balance-report nightly
    """
    _switch(job_name, schedule_id, False, url, token, as_json)


def _switch(
    job_name: str, schedule_id: str, on: bool, url: str | None, token: str | None, as_json: bool
) -> None:
    from shardmill.client.client import Client

    with Client(url, token) as client:
        found = client.switch_schedule(job_name, schedule_id, on=on)
    if as_json:
        output.json_document(found)
    else:
        next_time = f", next {output.cell(found.next_time)}" if found.next_time else ""
        output.line(f"{found.job_name} {found.schedule_id} {schedule_view.status(found)}{next_time}")


@app.command()
def delete(
    job_name: JobName, schedule_id: ScheduleId, url: Url = None, token: Token = None, as_json: Json = False
) -> None:
    """Delete a schedule. Its running jobs continue.

    \b
    Examples:
      shardmill schedule delete balance-report nightly
    """
    from shardmill.client.client import Client

    with Client(url, token) as client:
        client.delete_schedule(job_name, schedule_id)
    if as_json:
        output.json_document({"jobName": job_name, "scheduleId": schedule_id, "deleted": True})
    else:
        output.line(f"schedule {schedule_id} of {job_name} deleted")


@app.command()
def fire(
    job_name: JobName,
    schedule_id: ScheduleId,
    data_time: DataTime = None,
    param: Param = None,
    wait: Wait = False,
    timeout: Timeout = None,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Start a job of a schedule now, in addition to its regular times.

    \b
    Examples:
      shardmill schedule fire balance-report nightly
      shardmill schedule fire balance-report nightly --data-time 2026-01-21 --param region=eu --wait
    """
    from shardmill.client.client import Client

    check_timeout(wait, timeout)
    job_params = parse_params(param or ())
    with Client(url, token) as client:
        [time] = resolve_moments(client, job_name, schedule_id, [data_time]) if data_time else [None]
        job = client.fire(job_name, schedule_id, time, job_params)
        show_submitted(client, job, wait, timeout, as_json)


for _command in (backfill, backfills, stop):
    app.command()(_command)
