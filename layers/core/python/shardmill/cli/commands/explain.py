"""history"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from shardmill.cli import output
from shardmill.cli.options import JobName, Json, Token, Trigger, Url

if TYPE_CHECKING:
    from shardmill.model.job import Transition

_COLUMNS: dict[str, Callable[[Transition], object]] = {
    "TIME": lambda each: each.time,
    "RUN": lambda each: each.run,
    "STEP": lambda each: each.step_name,
    "STATE": lambda each: each.state,
    "BY": lambda each: each.actor,
    "REASON": lambda each: each.reason,
}


def history(
    job_name: JobName, trigger: Trigger, url: Url = None, token: Token = None, as_json: Json = False
) -> None:
    """List what happened to a Job and its steps, who did it and why.

    Of all its runs, in order; a line without a step is of the Job itself.

    \b
    Examples:
      shardmill history balance-report 20200121
      shardmill history balance-report 20200121 --json | jq '.[] | select(.stepName == null)'
    """
    from shardmill.client import Client

    with Client(url, token) as client:
        output.listing(client.history(job_name, trigger), _COLUMNS, as_json)
