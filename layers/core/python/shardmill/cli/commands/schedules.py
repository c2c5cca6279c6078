"""schedule save, list, show, next, on, off, delete, fire, backfill, backfills, stop"""

from __future__ import annotations

from typing import Annotated

import typer

from shardmill.cli import output
from shardmill.cli.commands.backfill import backfill, backfills, stop
from shardmill.cli.commands.schedule_save import save
from shardmill.cli.options import JobName, Json, Param, ScheduleId, Timeout, Token, Url, Wait, hand_down
from shardmill.cli.parsing import Moment, instants, moment, params
from shardmill.cli.render import schedule as schedule_view
from shardmill.cli.wait import check_timeout, tell_run

OfJob = Annotated[
    str | None, typer.Argument(metavar="JOB", show_default=False, help="Only of this definition.")
]
Count = Annotated[int, typer.Option("--count", metavar="N", min=1, max=1_000, help="How many.")]
After = Annotated[
    Moment | None,
    typer.Option(
        "--from",
        metavar="TIME",
        parser=moment,
        show_default="now",
        help="Those after this time; a date is its 00:00 in the schedule's zone.",
    ),
]
DataTime = Annotated[
    Moment | None,
    typer.Option(
        "--data-time",
        metavar="TIME",
        parser=moment,
        show_default="now",
        help="The time that the Job is for; a date is its 00:00 in the schedule's zone.",
    ),
]

app = typer.Typer(no_args_is_help=True)


@app.callback()
def schedule(ctx: typer.Context, url: Url = None, token: Token = None, as_json: Json = False) -> None:
    """Save schedules, see when and how they fire, fire and backfill them.

    \b
    Examples:
      shardmill schedule save balance-report nightly --cron '30 4 * * *' --timezone Europe/Berlin
      shardmill schedule list
      shardmill schedule show balance-report nightly
      shardmill schedule off balance-report nightly
      shardmill schedule backfill balance-report nightly --from 2026-01-01 --to 2026-02-01 --wait
    """
    hand_down(ctx, url, token, as_json)


app.command()(save)


@app.command("list")
def list_schedules(
    job_name: OfJob = None, url: Url = None, token: Token = None, as_json: Json = False
) -> None:
    """List the schedules, all or those of a definition.

    \b
    Examples:
      shardmill schedule list
      shardmill schedule list balance-report --json | jq -r '.[].nextTime'
    """
    from shardmill.client import Client

    with Client(url, token) as client:
        output.listing(client.schedules(job_name), schedule_view.COLUMNS, as_json)


@app.command()
def show(
    job_name: JobName, schedule_id: ScheduleId, url: Url = None, token: Token = None, as_json: Json = False
) -> None:
    """Show a schedule, its next times and its last ones.

    What --json prints can be edited and saved again with `schedule save --file`.

    \b
    Examples:
      shardmill schedule show balance-report nightly
      shardmill schedule show balance-report nightly --json > nightly.json
    """
    from shardmill.client import Client

    with Client(url, token) as client:
        found = client.schedule(job_name, schedule_id)
        if as_json:
            output.json_document(found)
            return
        schedule_view.show_schedule(client, found)
        schedule_view.show_history(found)


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
    """Show the coming times of a schedule.

    In UTC and in its zone, also if it is off.

    \b
    Examples:
      shardmill schedule next balance-report nightly
      shardmill schedule next balance-report nightly --count 3 --from 2026-03-28
    """
    from shardmill.client import Client

    with Client(url, token) as client:
        [since] = instants(client, job_name, schedule_id, [after]) if after else [None]
        found = client.next_times(job_name, schedule_id, count, since)
    output.listing(found, schedule_view.TIME_COLUMNS, as_json)


@app.command()
def on(
    job_name: JobName, schedule_id: ScheduleId, url: Url = None, token: Token = None, as_json: Json = False
) -> None:
    """Switch a schedule on.

    What it does about the times that it missed says its catch-up.

    \b
    Examples:
      shardmill schedule on balance-report nightly
    """
    _switch(job_name, schedule_id, True, url, token, as_json)


@app.command()
def off(
    job_name: JobName, schedule_id: ScheduleId, url: Url = None, token: Token = None, as_json: Json = False
) -> None:
    """Switch a schedule off; Jobs that it started go on.

    \b
    Examples:
      shardmill schedule off balance-report nightly
    """
    _switch(job_name, schedule_id, False, url, token, as_json)


def _switch(
    job_name: str, schedule_id: str, wanted: bool, url: str | None, token: str | None, as_json: bool
) -> None:
    from shardmill.client import Client

    with Client(url, token) as client:
        found = client.switch_schedule(job_name, schedule_id, on=wanted)
    if as_json:
        output.json_document(found)
    else:
        fires = f", next {output.cell(found.next_time)}" if found.next_time else ""
        output.line(f"{found.job_name} {found.schedule_id} {schedule_view.status(found)}{fires}")


@app.command()
def delete(
    job_name: JobName, schedule_id: ScheduleId, url: Url = None, token: Token = None, as_json: Json = False
) -> None:
    """Delete a schedule; Jobs that it started go on.

    \b
    Examples:
      shardmill schedule delete balance-report nightly
    """
    from shardmill.client import Client

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
    """Start a Job of a schedule now; its times stay as they are.

    \b
    Examples:
      shardmill schedule fire balance-report nightly
      shardmill schedule fire balance-report nightly --data-time 2026-01-21 --param region=eu --wait
    """
    from shardmill.client import Client

    check_timeout(wait, timeout)
    given = params(param or ())
    with Client(url, token) as client:
        [time] = instants(client, job_name, schedule_id, [data_time]) if data_time else [None]
        job = client.fire(job_name, schedule_id, time, given)
        tell_run(client, job, wait, timeout, as_json)


for _command in (backfill, backfills, stop):
    app.command()(_command)
