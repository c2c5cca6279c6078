"""cost, estimate: the cost of a job on AWS, so far or in advance."""

from __future__ import annotations

from typing import Annotated

import typer

from shardmill.cli import output
from shardmill.cli.options import JobName, Json, Token, Trigger, Url
from shardmill.cli.parsing import parse_params

File = Annotated[str, typer.Argument(metavar="FILE", help="Definition in JSON or YAML; - is standard input.")]
ShardingOption = Annotated[
    list[str] | None,
    typer.Option(
        "--sharding",
        metavar="STEP=N",
        show_default=False,
        help="Number of tasks of a step, instead of the number in the definition. Repeatable.",
    ),
]


def cost(
    job_name: JobName, trigger: Trigger, url: Url = None, token: Token = None, as_json: Json = False
) -> None:
    """Show what a job has cost on AWS so far, by service.

    Computed from the steps and tasks of the current run and from list prices; each task counts once. The
    computing time of tasks is included if Lambda ran them.

    \b
    Examples:
      shardmill cost balance-report 20200121
      shardmill cost balance-report 20200121 --json | jq .usd
    """
    from shardmill.cli.render.cost import show_cost
    from shardmill.client.client import Client

    with Client(url, token) as client:
        found = client.cost(job_name, trigger)
    if as_json:
        output.json_document(found)
    else:
        show_cost(found)


def estimate(file: File, sharding: ShardingOption = None, as_json: Json = False) -> None:
    """Estimate what a job would cost on AWS, without a server.

    Also lists the quotas of AWS that it uses, the one that is met first at the top. The estimate is for a run
    without retries. A step whose number of tasks is known only when it runs counts as one task, unless it is
    given with --sharding.

    \b
    Examples:
      shardmill estimate examples/balance-report.yaml
      shardmill estimate examples/balance-report.yaml --sharding generate_files=10000
      shardmill estimate job.yaml --json | jq '.quotas[0].name'
    """
    from shardmill.cli.commands.definitions import read_definition
    from shardmill.cli.render.cost import show_cost, show_quotas
    from shardmill.model.cost.estimate import estimate as estimated

    define = read_definition(file)
    counts = _counts(sharding or [], [step.step_name for step in define.steps])
    found = estimated(define, counts)
    if as_json:
        output.json_document(found)
        return
    tasks = ", ".join(f"{name} {number:,}" for name, number in found.tasks.items())
    output.line(f"{found.job_name}: {output.plural(len(found.tasks), 'step')}; tasks: {tasks}")
    for name in found.assumed:
        output.message(
            f"the number of tasks of step {name} is known only when it runs; it counts as one task"
        )
    show_cost(found.cost)
    show_quotas(found.quotas)


def _counts(given: list[str], steps: list[str]) -> dict[str, int]:
    from shardmill.model.blocks import MAX_SHARDS

    found: dict[str, int] = {}
    for name, text in parse_params(given, "--sharding", "STEP=N").items():
        if name not in steps:
            raise typer.BadParameter(
                f"there is no step {name!r}; the definition has {', '.join(steps)}", param_hint="--sharding"
            )
        if not text.isdecimal() or not 0 <= int(text) <= MAX_SHARDS:
            raise typer.BadParameter(
                f"{text!r} must be a number from 0 to {MAX_SHARDS:,}", param_hint="--sharding"
            )
        found[name] = int(text)
    return found
