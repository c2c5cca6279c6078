"""Run a command for one job or for many. A refusal for one job does not affect the others."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import typer

from shardmill.cli import output
from shardmill.cli.bulk.job_command import JobCommand
from shardmill.cli.bulk.selection import Selection, select_jobs
from shardmill.cli.exits import OTHER
from shardmill.cli.hints import with_commands
from shardmill.cli.render.bars import Count, count_progress
from shardmill.model.states import JobState

if TYPE_CHECKING:
    from shardmill.client.client import Client
    from shardmill.model.control.effect import DryRunItem
    from shardmill.model.job import Job

Outcome = dict[str, Any]

SHOWN_NAMES = 5
_OUTCOME_COLUMNS: dict[str, Callable[[Outcome], object]] = {
    "JOB": lambda outcome: outcome["jobName"],
    "TRIGGER": lambda outcome: outcome["trigger"],
    "RUN": lambda outcome: outcome["run"],
    "STATE": lambda outcome: outcome["state"],
    "RESULT": lambda outcome: "done" if outcome["done"] else "refused",
}


def run_job_command(
    command: JobCommand,
    selection: Selection,
    *,
    dry_run: bool,
    yes: bool,
    url: str | None,
    token: str | None,
    as_json: bool,
) -> None:
    """Check the options, then run the command for the named job or for all selected jobs."""
    from shardmill.client.client import Client

    selection.check()
    single = selection.single and not dry_run
    if command.step is not None and selection.downstream:
        raise typer.BadParameter(
            "cannot be combined with a step: other definitions have other steps", param_hint="--downstream"
        )
    if command.single_only and not single:
        raise typer.BadParameter("works for a single job only", param_hint=command.single_only)
    if not (single or dry_run or yes or _is_terminal()):
        raise typer.BadParameter(
            "cannot ask for confirmation without a terminal; check the selection with --dry-run, "
            "then repeat the command with --yes"
        )
    with Client(url, token) as client:
        if single and selection.job_name is not None and selection.trigger is not None:
            _run_for_one(client, command, selection.job_name, selection.trigger, as_json)
            return
        jobs = select_jobs(client, selection, command.default_states, command.oldest_first)
        if not jobs:
            output.message(f"no jobs to {command.verb} match the selection")
        if dry_run:
            _show_effects(client, command, jobs, as_json)
        else:
            _run_for_many(client, command, jobs, yes, as_json)


def _show_effects(client: Client, command: JobCommand, jobs: Sequence[Job], as_json: bool) -> None:
    """Print the effect on each job, as the server's dry run returns it; exit with 1 if any would be
    refused."""
    from shardmill.client.control import ActionRequests

    names = [(job.job_name, job.trigger) for job in jobs]
    items = list(client.dry_run(command.act(ActionRequests(), *names[0]), names)) if names else []
    if as_json:
        output.json_list(items)
    else:
        for item in items:
            _show_effect(item)
    if not items:
        return
    refused = sum(item.effect is None for item in items)
    unchanged = sum(item.effect is not None and not item.effect.changes for item in items)
    changed = output.plural(len(items) - refused - unchanged, "job")
    output.message(f"dry run: {changed} would change, {unchanged} would not, {refused} would refuse")
    if refused:
        raise typer.Exit(OTHER)


def _show_effect(item: DryRunItem) -> None:
    state = f" {item.effect.state.value}" if item.effect else ""
    output.line(f"{item.job_name} {item.trigger}{state}")
    problem = item.problem or {}
    detail = with_commands(str(problem.get("code", "")), str(problem.get("detail", item.status)))
    for sentence in item.effect.sentences if item.effect else [f"refused: {detail}"]:
        output.line(f"  {sentence}")


def _run_for_one(client: Client, command: JobCommand, job_name: str, trigger: str, as_json: bool) -> None:
    job = command.act(client, job_name, trigger)
    if job is not None:
        command.show(client, job, as_json)
    elif as_json:
        output.json_document({"jobName": job_name, "trigger": trigger, "deleted": True})
    else:
        output.message(f"{job_name} {trigger} deleted")


def _run_for_many(client: Client, command: JobCommand, jobs: Sequence[Job], yes: bool, as_json: bool) -> None:
    """Ask for confirmation, run the command, and exit with 1 if any job refused it."""
    if jobs and not yes:
        _confirm(command.verb, jobs)
    outcomes: list[Outcome] = []
    try:
        _run_each(client, command, jobs, outcomes)
    finally:  # an interrupted command also lists what it has done
        output.listing(outcomes, _OUTCOME_COLUMNS, as_json)
        if len(outcomes) < len(jobs):
            output.message(
                f"stopped early: {command.verb} not attempted for "
                f"{output.plural(len(jobs) - len(outcomes), 'job')}"
            )
    if not all(outcome["done"] for outcome in outcomes):
        raise typer.Exit(OTHER)


def _confirm(verb: str, jobs: Sequence[Job]) -> None:
    counts = Counter(job.job_name for job in jobs)
    names = [f"{count} of {name}" for name, count in counts.most_common(SHOWN_NAMES)]
    names += ["…"] if len(counts) > SHOWN_NAMES else []
    sys.stderr.write(f"{verb} {output.plural(len(jobs), 'job')} ({', '.join(names)})? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        output.message("cancelled; no job was changed")
        raise typer.Exit(OTHER)


def _run_each(client: Client, command: JobCommand, jobs: Sequence[Job], outcomes: list[Outcome]) -> None:
    refused = 0
    with count_progress() as show:
        for number, job in enumerate(jobs, 1):
            outcomes.append(_attempt(client, command, job))
            refused += not outcomes[-1]["done"]
            show(Count(command.verb, len(jobs), number, {"done": number - refused, "refused": refused}))


def _attempt(client: Client, command: JobCommand, job: Job) -> Outcome:
    """Run the command for one job. Errors that would affect every job, such as 403, are raised."""
    from shardmill.client.errors import Conflict, Invalid, NotFound, ServerError, Throttled

    code = detail = None
    after: Job | None = job
    try:
        after = command.act(client, job.job_name, job.trigger)
    except (Conflict, Invalid, NotFound, ServerError, Throttled) as error:
        code, detail = error.code, with_commands(error.code, error.detail)
        output.message(f"{job.job_name}/{job.trigger} refused: {detail}")
    return {
        "jobName": job.job_name,
        "trigger": job.trigger,
        "run": (after or job).run,
        "state": (after.state if after else JobState.DELETED).value,
        "done": code is None,
        "code": code,
        "detail": detail,
    }


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()
