"""Commands that are for one Job or for many: each says what is to be done, the rest is the same."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, fields, replace
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Any, get_type_hints

import typer
from typer.models import ArgumentInfo

from shardmill.cli import output
from shardmill.cli.bulk import run
from shardmill.cli.bulk.selection import FILTER, Choice
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
    run.check_asking(choice)
    with Client(choice.url, choice.token) as client:
        if choice.is_one and choice.job_name is not None and choice.trigger is not None:
            job = order.act(client, choice.job_name, choice.trigger)
            if job is None:
                _tell_gone(choice.job_name, choice.trigger, choice.as_json)
            else:
                order.tell(client, job, choice.as_json)
        else:
            run.carry_out(client, order, choice)


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


@dataclass(frozen=True, slots=True)
class LastWord:
    name: str
    metavar: str
    parse: Callable[[str], Any]

    def taken(self, choice: Choice, value: Any) -> tuple[Choice, Any]:
        """The choice without it, and its value, which beside a filter was read in the place of JOB."""
        if choice.filtered and choice.job_name is not None and choice.trigger is None:
            return replace(choice, job_name=None), self.parse(choice.job_name)
        if choice.filtered or value is None:
            raise typer.BadParameter(
                f"give either JOB, TRIGGER and {self.metavar}, or {self.metavar} and {FILTER}"
            )
        return choice, value


def last_word(parameters: Iterable[Parameter]) -> LastWord | None:
    """The one of a command's own parameters that is an argument, if there is one."""
    for each in parameters:
        for info in getattr(each.annotation, "__metadata__", ()):
            if isinstance(info, ArgumentInfo):
                return LastWord(each.name, info.metavar or each.name.upper(), info.parser or str)
    return None
