"""One thing done to many Jobs, each by itself: one that refuses does not keep the others from it."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import typer

from shardmill.cli import output
from shardmill.cli.bulk.selection import Choice, chosen
from shardmill.cli.exits import OTHER
from shardmill.cli.render.bars import Count, shown_counts
from shardmill.cli.render.hints import in_commands
from shardmill.model.states import JobState

if TYPE_CHECKING:
    from shardmill.cli.bulk.job_command import Order
    from shardmill.client import Client
    from shardmill.model.job import Job

Outcome = dict[str, Any]

SHOWN_NAMES = 5
_DRY_COLUMNS: dict[str, Callable[[Job], object]] = {
    "JOB": lambda job: job.job_name,
    "TRIGGER": lambda job: job.trigger,
    "STATE": lambda job: job.state.value,
    "DATA TIME": lambda job: job.data_time,
    "SUBMITTED": lambda job: job.create_time,
    "BY": lambda job: job.submit_user,
}
_COLUMNS: dict[str, Callable[[Outcome], object]] = {
    "JOB": lambda outcome: outcome["jobName"],
    "TRIGGER": lambda outcome: outcome["trigger"],
    "RUN": lambda outcome: outcome["run"],
    "STATE": lambda outcome: outcome["state"],
    "RESULT": lambda outcome: "done" if outcome["done"] else "refused",
}


def check_asking(choice: Choice) -> None:
    """Before anything is looked for: somebody has to be there to say yes."""
    if not (choice.is_one or choice.dry_run or choice.yes or _is_terminal()):
        raise typer.BadParameter(
            "there is no terminal to ask on; say --yes, after --dry-run has shown which Jobs it is for"
        )


def carry_out(client: Client, order: Order, choice: Choice) -> None:
    """Show the Jobs that were chosen, or ask, and do it to them; ends with 1 if any refused."""
    jobs = chosen(client, choice, order.usual, order.oldest_first)
    if not jobs:
        output.message(f"there is no Job to {order.verb} among those chosen")
    if choice.dry_run:
        output.listing(jobs, _DRY_COLUMNS, choice.as_json)
        return
    if jobs and not choice.yes:
        _ask(order.verb, jobs)
    outcomes: list[Outcome] = []
    try:
        _act(client, order, jobs, outcomes)
    finally:  # also of what was interrupted people want to know how far it came
        output.listing(outcomes, _COLUMNS, choice.as_json)
        if len(outcomes) < len(jobs):
            output.message(f"{output.many(len(jobs) - len(outcomes), 'Job')} not asked to {order.verb}")
    if not all(outcome["done"] for outcome in outcomes):
        raise typer.Exit(OTHER)


def _ask(verb: str, jobs: Sequence[Job]) -> None:
    numbers = Counter(job.job_name for job in jobs)
    names = [f"{number} of {name}" for name, number in numbers.most_common(SHOWN_NAMES)]
    names += ["…"] if len(numbers) > SHOWN_NAMES else []
    sys.stderr.write(f"{verb} {output.many(len(jobs), 'Job')} ({', '.join(names)})? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        output.message("nothing was done")
        raise typer.Exit(OTHER)


def _act(client: Client, order: Order, jobs: Sequence[Job], outcomes: list[Outcome]) -> None:
    refused = 0
    with shown_counts() as show:
        for ended, job in enumerate(jobs, 1):
            outcomes.append(_outcome(client, order, job))
            refused += not outcomes[-1]["done"]
            show(Count(order.verb, len(jobs), ended, {"done": ended - refused, "refused": refused}))


def _outcome(client: Client, order: Order, job: Job) -> Outcome:
    """What became of one; what would befall all the others too is raised."""
    from shardmill.client import Conflict, Invalid, NotFound, ServerError, Throttled

    code = detail = None
    after: Job | None = job
    try:
        after = order.act(client, job.job_name, job.trigger)
    except (Conflict, Invalid, NotFound, ServerError, Throttled) as error:
        code, detail = error.code, in_commands(error.code, error.detail)
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
