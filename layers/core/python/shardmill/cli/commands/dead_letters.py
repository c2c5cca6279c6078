"""dlq: list, show, redrive and delete dead letters."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from shardmill.cli import output
from shardmill.cli.options import Json, Token, Url, pass_to_subcommand
from shardmill.cli.watch import Watch, show_list

if TYPE_CHECKING:
    from shardmill.client.client import Client
    from shardmill.model.operations.dead_letter import DeadLetter

Source = Annotated[
    Literal["submit", "notification", "task"] | None,
    typer.Option("--source", show_default=False, help="Only dead letters of this source."),
]
LetterId = Annotated[str, typer.Argument(metavar="ID", help="ID of the dead letter.")]
LetterIds = Annotated[
    list[str] | None, typer.Argument(metavar="[ID]...", show_default=False, help="IDs of dead letters.")
]
Everything = Annotated[bool, typer.Option("--all", help="Apply to all dead letters.")]

_COLUMNS: dict[str, Callable[[DeadLetter], object]] = {
    "ID": lambda letter: letter.id,
    "SOURCE": lambda letter: letter.source,
    "TIME": lambda letter: letter.time,
    "REASON": lambda letter: letter.reason[:100],
}

app = typer.Typer(no_args_is_help=True)


@app.callback()
def dlq(ctx: typer.Context, url: Url = None, token: Token = None, as_json: Json = False) -> None:
    """List and redrive dead letters.

    Dead letters are events and messages that failed in every attempt.

    \b
    Examples:
      shardmill dlq list
      shardmill dlq show ID
      shardmill dlq redrive ID
      shardmill dlq redrive --all --source submit
      shardmill dlq delete ID
    """
    pass_to_subcommand(ctx, url, token, as_json)


@app.command("list")
def list_letters(
    source: Source = None,
    watch: Watch = False,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """List the dead letters, newest first.

    \b
    Examples:
      shardmill dlq list
      shardmill dlq list --watch
      shardmill dlq list --source notification --json
    """
    from shardmill.client.client import Client

    with Client(url, token) as client:
        show_list(
            lambda: (letter for letter in client.dead_letters() if source in (None, letter.source)),
            _COLUMNS,
            as_json,
            watch,
        )


@app.command()
def show(letter_id: LetterId, url: Url = None, token: Token = None, as_json: Json = False) -> None:
    """Show a dead letter and its payload.

    \b
    Examples:
      shardmill dlq show ID
      shardmill dlq show ID --json
    """
    from shardmill.client.client import Client

    with Client(url, token) as client:
        letter = client.dead_letter(letter_id)
    if as_json:
        output.json_document(letter)
        return
    output.line(f"dead letter {letter.id}")
    output.details({"source": letter.source, "time": letter.time, "reason": letter.reason})
    output.json_document(letter.payload)


@app.command()
def redrive(
    letter_ids: LetterIds = None,
    everything: Everything = False,
    source: Source = None,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Send dead letters again to where they failed.

    Events are sent to the function submit, notifications to their queue. A letter that fails again returns
    with another ID. Task messages cannot be redriven: --all leaves them out.

    \b
    Examples:
      shardmill dlq redrive ID
      shardmill dlq redrive --all
      shardmill dlq redrive --all --source notification
    """
    from shardmill.client.client import Client
    from shardmill.model.operations.dead_letter import REDRIVABLE

    _require_ids_or_all(letter_ids, everything, source)
    with Client(url, token) as client:
        chosen = letter_ids or _ids(client, source, lambda letter: letter.source in REDRIVABLE)
        for letter_id in chosen:
            with _missing_ignored(everything):
                client.redrive_dead_letter(letter_id)
                _report(letter_id, "redriven", as_json)


@app.command()
def delete(
    letter_ids: LetterIds = None,
    everything: Everything = False,
    source: Source = None,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Delete dead letters.

    \b
    Examples:
      shardmill dlq delete ID
      shardmill dlq delete --all --source task
    """
    from shardmill.client.client import Client

    _require_ids_or_all(letter_ids, everything, source)
    with Client(url, token) as client:
        for letter_id in letter_ids or _ids(client, source):
            with _missing_ignored(everything):
                client.delete_dead_letter(letter_id)
                _report(letter_id, "deleted", as_json)


def _ids(
    client: Client, source: str | None, wanted: Callable[[DeadLetter], bool] = lambda _: True
) -> list[str]:
    """The present letters: one that fails again meanwhile is not sent a second time."""
    return [
        letter.id for letter in client.dead_letters() if source in (None, letter.source) and wanted(letter)
    ]


def _missing_ignored(everything: bool) -> AbstractContextManager[None]:
    """With --all, another user may have redriven or deleted a letter since it was listed."""
    from shardmill.client.errors import NotFound

    return suppress(NotFound) if everything else nullcontext()


def _report(letter_id: str, done: str, as_json: bool) -> None:
    if as_json:
        output.json_line({"id": letter_id, done: True})
    else:
        output.line(f"dead letter {letter_id} {done}")


def _require_ids_or_all(letter_ids: list[str] | None, everything: bool, source: str | None) -> None:
    if everything == bool(letter_ids):
        raise typer.BadParameter("give either IDs of dead letters or --all")
    if source and not everything:
        raise typer.BadParameter("--source requires --all")
