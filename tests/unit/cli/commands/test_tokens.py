"""tokens and its subcommands."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from support.fakes.api import NOW, FakeApi, Reply, Run, output_of, page, problem

ID = "abcdefghijklmnop"
TOKEN = f"sm_{ID}_" + "x" * 43


def token(token_id: str = ID, **more: Any) -> dict[str, Any]:
    fixed = {"id": token_id, "name": "ci", "owner": "al\x1bice", "createTime": NOW, "createUser": "admin"}
    scopes = ["read", {"scope": "submit", "definitions": ["report-*"], "groups": ["a", "b"]}]
    return {**fixed, "scopes": scopes, **more}


@pytest.fixture
def api() -> FakeApi:
    api = FakeApi()
    api.on("GET", "/v1/tokens", page(token(), token("b" * 16, lastUseTime=NOW)))
    api.on("GET", f"/v1/tokens/{ID}", token(expires=NOW, overlapUntil=NOW))
    api.on("POST", "/v1/tokens", Reply(token(token=TOKEN), 201))
    api.on("POST", f"/v1/tokens/{ID}:rotate", token(token=TOKEN))
    api.on("DELETE", f"/v1/tokens/{ID}", Reply(status=204))
    return api


def test_create_prints_only_the_token_to_standard_output(api: FakeApi, run: Run) -> None:
    result = run("tokens", "create", "ci", "--scope", "read")
    assert (result.exit_code, result.stdout) == (0, TOKEN + "\n")
    assert f"the token {ID} is shown only now" in result.stderr
    assert TOKEN not in result.stderr
    assert api.requests[0].document == {"name": "ci", "scopes": ["read"]}
    assert json.loads(output_of(run("tokens", "create", "ci", "--scope", "read", "--json")))["token"] == TOKEN


def test_create_sends_the_limits_of_scopes(api: FakeApi, run: Run) -> None:
    own = '{"scope": "operate", "applications": ["hr"]}'
    options = ("--scope", "read", "--scope", own, "--definition", "report-*", "--application", "finance")
    run("tokens", "create", "ci", *options, "--owner", "alice", "--expires", "2030-01-01")
    limited = {"scope": "read", "definitions": ["report-*"], "applications": ["finance"]}
    assert api.requests[0].document == {
        "name": "ci",
        "scopes": [limited, {"scope": "operate", "applications": ["hr"]}],
        "owner": "alice",
        "expires": "2030-01-01T00:00:00.000Z",
    }


def test_create_converts_a_lifetime_to_an_expiry(api: FakeApi, run: Run) -> None:
    run("tokens", "create", "ci", "--scope", "worker", "--group", "big", "--expires", "90d")
    sent = api.requests[0].document
    assert sent["scopes"] == [{"scope": "worker", "groups": ["big"]}]
    left = datetime.fromisoformat(sent["expires"]) - datetime.now(UTC)
    assert timedelta(days=89, hours=23) < left <= timedelta(days=90)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], "Missing option '--scope'"),
        (["--scope", "{nothing"], "not valid JSON"),
        (["--scope", "read", "--expires", "soon"], "must be a date"),
    ],
)
def test_usage_errors_are_found_before_a_request(
    api: FakeApi, run: Run, options: list[str], expected: str
) -> None:
    result = run("tokens", "create", "ci", *options)
    assert result.exit_code == 2
    assert expected in result.stderr
    assert api.requests == []


def test_tokens_are_listed(run: Run) -> None:
    headings, *rows = output_of(run("tokens", "list")).splitlines()
    assert headings.split() == ["ID", "NAME", "OWNER", "SCOPES", "LAST", "USE", "EXPIRES"]
    assert [row.split()[0] for row in rows] == [ID, "b" * 16]
    assert "read,submit(limited)" in rows[0]
    assert "\x1b" not in "".join(rows)


def test_a_token_is_shown_with_its_scopes(run: Run) -> None:
    shown = output_of(run("tokens", "show", ID))
    assert shown.startswith(f"token {ID}\n  name       ci\n")
    assert "  scope      submit for definitions report-* and groups a, b\n" in shown
    assert json.loads(output_of(run("tokens", "show", ID, "--json")))["id"] == ID


@pytest.mark.parametrize(
    ("options", "body"),
    [([], {}), (["--overlap", "1h"], {"overlapSeconds": 3600}), (["--overlap", "0"], {"overlapSeconds": 0})],
)
def test_rotate_prints_only_the_new_token(
    api: FakeApi, run: Run, options: list[str], body: dict[str, int]
) -> None:
    assert run("tokens", "rotate", ID, *options).stdout == TOKEN + "\n"
    assert api.requests[0].document == body


def test_revoke_confirms_or_exits_3(api: FakeApi, run: Run) -> None:
    assert output_of(run("tokens", "revoke", ID)) == f"token {ID} revoked\n"
    assert json.loads(output_of(run("tokens", "revoke", ID, "--json"))) == {"id": ID, "revoked": True}
    api.on("DELETE", f"/v1/tokens/{ID}", problem(404, "token-not-found", "there is no token"))
    assert run("tokens", "revoke", ID).exit_code == 3
