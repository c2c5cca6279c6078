"""Wait for a job to end and show its progress. Ctrl-C or a timeout ends the waiting, not the job."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn

import typer

from shardmill.cli import output
from shardmill.cli.exits import INTERRUPTED
from shardmill.cli.render.job import exit_code, show_job

if TYPE_CHECKING:
    from shardmill.client.calls import Submitted
    from shardmill.client.client import Client


def check_timeout(wait: bool, timeout: float | None) -> None:
    if timeout is not None and not wait:
        raise typer.BadParameter("requires --wait", param_hint="--timeout")


@contextlib.contextmanager
def waiting(as_json: bool, *on_interrupt: str) -> Iterator[None]:
    """Print the last state after a timeout with --json, and the messages `on_interrupt` after Ctrl-C."""
    from shardmill.client.errors import WaitTimedOut

    try:
        yield
    except WaitTimedOut as error:
        if as_json:
            output.json_document(error.job or error.backfill)
        raise
    except KeyboardInterrupt:
        for text in on_interrupt:
            output.message(text)
        raise typer.Exit(INTERRUPTED) from None


def show_submitted(client: Client, job: Submitted, wait: bool, timeout: float | None, as_json: bool) -> None:
    """Show a submitted job immediately, or, with `wait`, once it has ended."""
    name = f"{job.job_name}/{job.trigger}"
    if not job.new:
        output.message(f"{name} already exists with an identical request; no new job was created")
    if wait:
        if job.new:
            output.message(f"submitted {name}")
        wait_for_job(client, job.job_name, job.trigger, timeout, as_json)
    if as_json:
        output.json_document(job)
    else:
        output.line(f"{job.job_name} {job.trigger} {job.state.value}")


def wait_for_job(
    client: Client, job_name: str, trigger: str, timeout: float | None, as_json: bool
) -> NoReturn:
    """Show progress until the job ends, then the job; exit with its exit code."""
    from shardmill.cli.render.progress import job_progress

    continues = f"the job continues; to keep watching it, run: shardmill watch {job_name} {trigger}"
    with waiting(as_json, continues), job_progress(client) as show:
        found = client.wait(job_name, trigger, timeout, show)
    if as_json:
        output.json_document(found)
    else:
        show_job(found)
    raise typer.Exit(exit_code(client, found))
