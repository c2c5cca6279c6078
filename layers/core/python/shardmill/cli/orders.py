"""Commands that are for one Job or for many: each says what is to be done, the rest is the same."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, fields
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Any, get_type_hints

import typer

from shardmill.cli import bulk, output
from shardmill.cli.choice import Choice
from shardmill.cli.last_word import last_word
from shardmill.model.states import JobState

if TYPE_CHECKING:
    from shardmill.client import Client
    from shardmill.model.job import Job


def _tell(_client: Client, job: Job, as_json: bool) -> None:
    tell(job, as_json)


@dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """What is to be done to Jobs; `act` gives the Job after it, nothing if it is gone.

    `usual`: the states of those that a filter is for, unless it says which. `step`: it is about this step of
    theirs. `tell`: shows the answer, if it was for one Job. `only_one`: an option that many cannot have.
    """

    verb: str
    usual: Collection[JobState]
    act: Callable[[Client, str, str], Job | None]
    step: str | None = None
    oldest_first: bool = False
    tell: Callable[[Client, Job, bool], None] = _tell
    only_one: str | None = None


def for_jobs(plan: Callable[..., Order]) -> Callable[..., None]:
    """The command with the options of `plan`, at most one argument of it, and those of a choice of Jobs."""
    own = signature(plan, eval_str=True).parameters
    word = last_word(own.values())

    def command(**given: Any) -> None:
        wish = {name: given.pop(name) for name in own}
        choice = Choice(**given)
        if word:
            choice, wish[word.name] = word.taken(choice, wish[word.name])
        _carry_out(plan(**wish), choice)

    hints = get_type_hints(Choice, include_extras=True)
    keyword = Parameter.KEYWORD_ONLY
    shared = [
        Parameter(each.name, keyword, default=each.default, annotation=hints[each.name])
        for each in fields(Choice)
    ]
    names, rest = shared[:2], shared[2:]
    wanted = [
        each.replace(kind=keyword, default=None if word and each.name == word.name else each.default)
        for each in own.values()
    ]
    parameters = [*names, *wanted, *rest]
    command.__name__, command.__doc__ = plan.__name__, plan.__doc__
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return command


def _carry_out(order: Order, choice: Choice) -> None:
    from shardmill.client import Client

    choice.check()
    if order.step is not None and choice.downstream:
        raise typer.BadParameter(
            "cannot be had with a step: other definitions have others", param_hint="--downstream"
        )
    if order.only_one and not choice.is_one:
        raise typer.BadParameter("is for one Job only", param_hint=order.only_one)
    bulk.check_asking(choice)
    with Client(choice.url, choice.token) as client:
        if choice.is_one and choice.job_name is not None and choice.trigger is not None:
            job = order.act(client, choice.job_name, choice.trigger)
            if job is None:
                _tell_gone(choice.job_name, choice.trigger, choice.as_json)
            else:
                order.tell(client, job, choice.as_json)
        else:
            bulk.carry_out(client, order, choice)


def _tell_gone(job_name: str, trigger: str, as_json: bool) -> None:
    if as_json:
        output.json_document({"jobName": job_name, "trigger": trigger, "deleted": True})
    else:
        output.message(f"{job_name} {trigger} deleted")


def tell(job: Job, as_json: bool, more: str = "") -> None:
    """What became of a Job."""
    if as_json:
        output.json_document(job)
    else:
        output.line(f"{job.job_name} {job.trigger} {job.state.value}{more}")
