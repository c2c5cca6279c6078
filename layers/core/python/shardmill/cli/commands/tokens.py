"""tokens: create, list, show, rotate and revoke tokens."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shardmill.cli import complete, output
from shardmill.cli.options import Json, Token, Url, pass_to_subcommand
from shardmill.cli.parsing import parse_duration, parse_moment
from shardmill.cli.watch import Watch, show_list

if TYPE_CHECKING:
    from shardmill.model.access.token import GrantedScope, IssuedToken
    from shardmill.model.access.token import Token as TokenView

TokenId = Annotated[str, typer.Argument(metavar="ID", help="ID of the token.")]
TokenName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the token, such as its purpose.")]
Scopes = Annotated[
    list[str],
    typer.Option(
        "--scope",
        metavar="SCOPE",
        help="read, submit, operate, define, admin or worker; or a JSON object with limits. Repeatable.",
    ),
]
Definitions = Annotated[
    list[str] | None,
    typer.Option(
        "--definition",
        metavar="NAME",
        show_default=False,
        help="Limit the scopes to this definition, or with * at the end to a prefix. Repeatable.",
    ),
]
Applications = Annotated[
    list[str] | None,
    typer.Option(
        "--application",
        metavar="NAME",
        show_default=False,
        help="Limit the scopes to definitions with this appName. Repeatable.",
    ),
]
Groups = Annotated[
    list[str] | None,
    typer.Option(
        "--group",
        metavar="NAME",
        show_default=False,
        help="Limit the scopes to this worker group. Repeatable.",
        autocompletion=complete.groups,
    ),
]
Owner = Annotated[
    str | None,
    typer.Option(
        "--owner",
        metavar="USER",
        show_default="the name",
        help="User that jobs and the history show for actions with the token.",
    ),
]
Expires = Annotated[
    str | None,
    typer.Option(
        "--expires",
        metavar="TIME",
        show_default="never",
        help="Expiry: a duration such as 90d, a date or a time.",
    ),
]
Overlap = Annotated[
    int | None,
    typer.Option(
        "--overlap",
        metavar="DURATION",
        parser=parse_duration,
        show_default="1d",
        help="How long the present secret stays valid, such as 15m; 0 ends it now.",
    ),
]

_COLUMNS: dict[str, Callable[[TokenView], object]] = {
    "ID": lambda token: token.id,
    "NAME": lambda token: token.name,
    "OWNER": lambda token: token.owner,
    "SCOPES": lambda token: [
        each.scope + ("(limited)" if each.grant().limited else "") for each in token.scopes
    ],
    "LAST USE": lambda token: token.last_use_time,
    "EXPIRES": lambda token: token.expires,
}

app = typer.Typer(no_args_is_help=True)


@app.callback()
def tokens(ctx: typer.Context, url: Url = None, token: Token = None, as_json: Json = False) -> None:
    """Manage the tokens of people, programs and workers.

    Requires a token with the scope admin.

    \b
    Examples:
      shardmill tokens create ci --scope read --scope submit --definition 'report-*'
      shardmill tokens list
      shardmill tokens show ID
      shardmill tokens rotate ID --overlap 1h
      shardmill tokens revoke ID
    """
    pass_to_subcommand(ctx, url, token, as_json)


@app.command()
def create(
    name: TokenName,
    scopes: Scopes,
    definitions: Definitions = None,
    applications: Applications = None,
    groups: Groups = None,
    owner: Owner = None,
    expires: Expires = None,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Create a token and print it. It is not shown again.

    --definition, --application and --group limit each scope that is given by its name. The scope worker
    can be limited to groups only.

    \b
    Examples:
      shardmill tokens create ci --scope submit --definition 'report-*' --expires 90d
      shardmill tokens create host-17 --scope worker --group reports
      shardmill tokens create alice --scope read --scope operate --application finance
      shardmill tokens create ci --scope '{"scope": "submit", "definitions": ["orders"]}'
    """
    from shardmill.client.client import Client

    limits = {"definitions": definitions, "applications": applications, "groups": groups}
    granted = [_scope(each, limits) for each in scopes]
    until = _expiry(expires)
    with Client(url, token) as client:
        _print_issued(client.create_token(name, granted, owner=owner, expires=until), as_json)


@app.command("list")
def list_tokens(watch: Watch = False, url: Url = None, token: Token = None, as_json: Json = False) -> None:
    """List the tokens, without their secrets.

    The last use is accurate to an hour.

    \b
    Examples:
      shardmill tokens list
      shardmill tokens list --json
    """
    from shardmill.client.client import Client

    with Client(url, token) as client:
        show_list(client.tokens, _COLUMNS, as_json, watch)


@app.command()
def show(token_id: TokenId, url: Url = None, token: Token = None, as_json: Json = False) -> None:
    """Show a token, its scopes and its last use.

    \b
    Examples:
      shardmill tokens show ID
      shardmill tokens show ID --json
    """
    from shardmill.client.client import Client

    with Client(url, token) as client:
        found = client.token(token_id)
    if as_json:
        output.json_document(found)
        return
    output.line(f"token {found.id}")
    output.details(
        {
            "name": found.name,
            "owner": found.owner,
            "created": f"{output.cell(found.create_time)} by {found.create_user}",
            "expires": found.expires,
            "rotated": found.rotate_time,
            "overlap": found.overlap_until,
            "last use": found.last_use_time,
        }
    )
    for each in found.scopes:
        output.line(f"  {'scope':<10} {_scope_text(each)}")


@app.command()
def rotate(
    token_id: TokenId,
    overlap: Overlap = None,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Replace the secret of a token and print the new token.

    The present secret stays valid for a day, or for --overlap, so that programs can change to the new one.

    \b
    Examples:
      shardmill tokens rotate ID
      shardmill tokens rotate ID --overlap 1h
      shardmill tokens rotate ID --overlap 0
    """
    from shardmill.client.client import Client

    with Client(url, token) as client:
        _print_issued(client.rotate_token(token_id, overlap), as_json)


@app.command()
def revoke(token_id: TokenId, url: Url = None, token: Token = None, as_json: Json = False) -> None:
    """Revoke a token. It stops working within a minute.

    \b
    Examples:
      shardmill tokens revoke ID
    """
    from shardmill.client.client import Client

    with Client(url, token) as client:
        client.revoke_token(token_id)
    if as_json:
        output.json_line({"id": token_id, "revoked": True})
    else:
        output.line(f"token {token_id} revoked")


def _scope(text: str, limits: dict[str, list[str] | None]) -> str | dict[str, Any]:
    """A scope by its name, with the limits of the options, or a JSON object as in the API."""
    if text.lstrip().startswith("{"):
        try:
            given: dict[str, Any] = json.loads(text)
        except ValueError as error:
            raise typer.BadParameter(f"is not valid JSON: {error}", param_hint="--scope") from None
        return given
    known = {name: values for name, values in limits.items() if values}
    return {"scope": text, **known} if known else text


def _expiry(text: str | None) -> datetime | None:
    if text is None:
        return None
    if text[-1:] in ("s", "m", "h", "d"):
        return datetime.now(UTC) + timedelta(seconds=parse_duration(text))
    return parse_moment(text).to_utc("UTC")


def _scope_text(granted: GrantedScope) -> str:
    grant = granted.grant()
    limits = {"definitions": grant.definitions, "applications": grant.applications, "groups": grant.groups}
    known = [f"{name} {', '.join(values)}" for name, values in limits.items() if values is not None]
    return output.printable(f"{grant.scope}{' for ' if known else ''}{' and '.join(known)}")


def _print_issued(issued: IssuedToken, as_json: bool) -> None:
    if as_json:
        output.json_document(issued)
        return
    output.line(issued.token)
    output.message(f"the token {issued.id} is shown only now; store it where only its user can read it")
