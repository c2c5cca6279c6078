"""The `shardmill` application and the list of its commands.

A command imports the client and other heavy packages when it runs, so that --help stays fast.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from shardmill.cli import output
from shardmill.cli.commands import (
    change,
    control,
    dead_letters,
    definitions,
    dependencies,
    dev,
    explain,
    files,
    groups,
    jobs,
    logs,
    rerun,
    schedules,
    tasks,
    tokens,
    worker,
    workers,
)
from shardmill.cli.commands.overview import cost, limits, open_page, top
from shardmill.cli.commands.setup import doctor, init, shell_completion
from shardmill.cli.sections import Commands

app = typer.Typer(
    cls=Commands,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _print_version(requested: bool) -> None:
    if requested:
        from importlib.metadata import version

        output.line(version("shardmill"))
        raise typer.Exit


@app.callback()
def shardmill(
    version: Annotated[  # noqa: ARG001  handled by its callback
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Run sharded batch jobs on AWS or on this machine.

    \b
    Examples:
      shardmill demo
      shardmill dev
      shardmill define examples/balance-report.yaml
      shardmill submit balance-report --wait

    Data is written to standard output, messages to standard error. Every command supports --json.

    \b
    Exit codes:
      0  success
      1  error
      2  invalid usage
      3  not found
      4  the job failed
      5  timed out
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
    logs.logs,
    files.files,
    files.get,
    jobs.watch,
    explain.history,
    control.suspend,
    control.resume,
    control.start,
    control.kill,
    rerun.rerun,
    rerun.recompute,
    change.change,
    control.force,
    control.delete,
    explain.why,
    definitions.graph,
    worker.worker,
    top.top,
    cost.cost,
    cost.estimate,
    limits.limits,
    shell_completion.completion,
    init.init,
    doctor.doctor,
):
    app.command()(_command)
app.command("open")(open_page.open_page)
# A negative priority such as -1 is a value, not an option.
app.command(context_settings={"ignore_unknown_options": True})(change.priority)
app.add_typer(definitions.app, name="definitions")
app.add_typer(schedules.app, name="schedule")
app.add_typer(groups.app, name="groups")
app.add_typer(workers.app, name="workers")
app.add_typer(dead_letters.app, name="dlq")
app.add_typer(tokens.app, name="tokens")
