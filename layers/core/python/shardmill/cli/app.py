"""All the commands; what they need is imported when they run, so that --help is quick."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from shardmill.cli import output
from shardmill.cli.commands import (
    change,
    control,
    definitions,
    dependencies,
    dev,
    explain,
    files,
    groups,
    jobs,
    rerun,
    schedules,
    tasks,
    worker,
    workers,
)
from shardmill.cli.commands import control as control_module
from shardmill.cli.commands import definitions as definitions_module
from shardmill.cli.commands import files as files_module
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
    dev.dev,
    dev.demo,
    definitions.validate,
    definitions.define,
    jobs.submit,
    jobs.jobs,
    jobs.job,
    dependencies.dependencies,
    tasks.tasks,
    tasks.logs,
    files.files,
    files_module.get,
    jobs.watch,
    explain.history,
    control.suspend,
    control.resume,
    control.kill,
    rerun.rerun,
    rerun.recompute,
    change.change,
    control_module.force,
    control_module.delete,
    control_module.why,
    definitions.graph,
    worker.worker,
):
    app.command()(_command)
app.command(context_settings={"ignore_unknown_options": True})(change.priority)  # -1 is a number
app.add_typer(definitions_module.app, name="definitions")
app.add_typer(schedules.app, name="schedule")
app.add_typer(groups.app, name="groups")
app.add_typer(workers.app, name="workers")
