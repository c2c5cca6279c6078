"""why, history: explain the state of a job and how it got there."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from shardmill.cli import output
from shardmill.cli.log_text import log_text
from shardmill.cli.options import JobName, Json, Token, Trigger, Url
from shardmill.cli.terminal import coloured
from shardmill.cli.watch import Watch, show_list

if TYPE_CHECKING:
    from shardmill.model.job import Transition

_COLUMNS: dict[str, Callable[[Transition], object]] = {
    "TIME": lambda transition: transition.time,
    "RUN": lambda transition: transition.run,
    "STEP": lambda transition: transition.step_name,
    "STATE": lambda transition: transition.state,
    "USER": lambda transition: transition.actor,
    "REASON": lambda transition: transition.reason,
}


def why(
    job_name: JobName, trigger: Trigger, url: Url = None, token: Token = None, as_json: Json = False
) -> None:
    """Explain the state of a job.

    Says why a job has not ended, or why it ended the way it did.

    \b
    Examples:
      shardmill why balance-report 20200121
      shardmill why balance-report 20200121 --json | jq -r .sentences[]
    """
    from shardmill.client.client import Client

    with Client(url, token) as client:
        explanation = client.explain(job_name, trigger)
    if as_json:
        output.json_document(explanation)
        return
    for sentence in explanation.sentences:
        output.line(log_text(sentence, coloured(sys.stdout)))


def history(
    job_name: JobName,
    trigger: Trigger,
    watch: Watch = False,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """List the state changes of a job and its steps.

    Lists the changes of all runs with user and reason, oldest first. A row without a step is about the job.

    \b
    Examples:
      shardmill history balance-report 20200121
      shardmill history balance-report 20200121 --watch
      shardmill history balance-report 20200121 --json | jq '.[] | select(.stepName == null)'
    """
    from shardmill.client.client import Client

    with Client(url, token) as client:
        show_list(lambda: client.history(job_name, trigger), _COLUMNS, as_json, watch)
