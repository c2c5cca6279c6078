"""Waiting for what was started: a Job until its end, with its progress; Ctrl-C and the clock end only the
waiting."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn

import typer

from shardmill.cli import output
from shardmill.cli.exits import INTERRUPTED
from shardmill.cli.render.job import show_job, verdict

if TYPE_CHECKING:
    from shardmill.client import Client, Submitted


def check_timeout(wait: bool, timeout: float | None) -> None:
    if timeout is not None and not wait:
        raise typer.BadParameter("is for --wait only", param_hint="--timeout")


@contextlib.contextmanager
def watched(as_json: bool, *goes_on: str) -> Iterator[None]:
    """Says how what is waited for goes on, if somebody is tired of waiting."""
    from shardmill.client import WaitTimedOut

    try:
        yield
    except WaitTimedOut as error:
        if as_json:
            output.json_document(error.job or error.backfill)
        raise
    except KeyboardInterrupt:
        for sentence in goes_on:
            output.message(sentence)
        raise typer.Exit(INTERRUPTED) from None


def tell_run(client: Client, job: Submitted, wait: bool, timeout: float | None, as_json: bool) -> None:
    """Show the Job that was asked for, at once or when it has ended."""
    name = f"{job.job_name}/{job.trigger}"
    if not job.new:
        output.message(f"{name} exists already: this is the same request again")
    if wait:
        if job.new:
            output.message(f"submitted {name}")
        await_job(client, job.job_name, job.trigger, timeout, as_json)
    if as_json:
        output.json_document(job)
    else:
        output.line(f"{job.job_name} {job.trigger} {job.state.value}")


def await_job(client: Client, job_name: str, trigger: str, timeout: float | None, as_json: bool) -> NoReturn:
    """Show progress until the end, then the Job; ends the command."""
    from shardmill.cli.render.progress import shown_progress

    goes_on = f"the Job goes on; see it with: shardmill watch {job_name} {trigger}"
    with watched(as_json, goes_on), shown_progress(client) as show:
        found = client.wait(job_name, trigger, timeout, show)
    if as_json:
        output.json_document(found)
    else:
        show_job(found)
    raise typer.Exit(verdict(client, found))
