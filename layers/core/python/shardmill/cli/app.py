"""All the commands; what they need is imported when they run, so that --help is quick."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from shardmill.cli import (
    again,
    catalogue,
    change,
    control,
    definitions,
    files,
    get,
    groups,
    history,
    jobs,
    laptop,
    output,
    parents,
    schedule,
    tasks,
    verdicts,
    worker,
    workers,
)
from shardmill.cli.exits import Commands

app = typer.Typer(
    cls=Commands,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        output.line(version("shardmill"))
        raise typer.Exit


@app.callback()
def shardmill(
    version: Annotated[  # noqa: ARG001  its callback has seen to it
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Sharded batch jobs on AWS, or on this machine.

    \b
    Examples:
      shardmill demo
      shardmill dev
      shardmill define examples/balance-report.yaml
      shardmill submit balance-report --wait

    Data goes to standard output, messages to standard error; every command has --json.

    \b
    Exit codes: 0 fine, 1 other errors, 2 usage, 3 not found, 4 the job failed, 5 timed out
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


for _command in (
    laptop.dev,
    laptop.demo,
    definitions.validate,
    definitions.define,
    jobs.submit,
    jobs.jobs,
    jobs.job,
    parents.dependencies,
    tasks.tasks,
    tasks.logs,
    files.files,
    get.get,
    jobs.watch,
    history.history,
    control.suspend,
    control.resume,
    control.kill,
    again.rerun,
    again.recompute,
    change.change,
    verdicts.force,
    verdicts.delete,
    verdicts.why,
    definitions.graph,
    worker.worker,
):
    app.command()(_command)
app.command(context_settings={"ignore_unknown_options": True})(change.priority)  # -1 is a number
app.add_typer(catalogue.app, name="definitions")
app.add_typer(schedule.app, name="schedule")
app.add_typer(groups.app, name="groups")
app.add_typer(workers.app, name="workers")
