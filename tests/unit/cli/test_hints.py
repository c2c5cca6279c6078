"""Advice in API errors names commands, not routes."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from shardmill import client, engine
from shardmill.cli.hints import REWRITES, with_commands, without_routes
from shardmill.engine.access.errors import Unauthorized
from shardmill.engine.errors import DefinitionNotFound, DefinitionSuspended, ScheduleNotFound
from shardmill.model.actor import Actor, suspended_by
from support.fakes.api import FakeApi, Run, problem


def test_routes_become_commands(api: FakeApi, run: Run) -> None:
    text = "its step 'main' needs a worker group 'nope'; make it with PUT /v1/groups/nope"
    fault = {"pointer": "/jobName", "code": "unknown-group", "message": text}
    api.on("POST", "/v1/jobs", problem(422, "invalid-request", "the request is not valid", faults=[fault]))
    assert run("submit", "report").stderr.endswith("'nope'; make it with `shardmill groups add nope`\n")
    api.on("POST", "/v1/jobs", problem(404, "definition-not-found", DefinitionNotFound("report").detail))
    advice = "there is no definition named 'report'; save it with `shardmill define FILE`"
    assert run("submit", "report").stderr == f"shardmill: {advice}\n"
    refusal = problem(404, "schedule-not-found", ScheduleNotFound("report", "nightly").detail)
    api.on("GET", "/v1/schedules/report/nightly", refusal)
    advice = "save it with `shardmill schedule save report nightly --cron …`"
    assert run("schedule", "show", "report", "nightly").stderr.endswith(f"; {advice}\n")


def source_texts() -> Iterator[str]:
    """All strings in the engine and the client, with `x` in place of each formatted value."""
    for package in (engine, client):
        for file in Path(package.__path__[0]).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.JoinedStr):
                    yield "".join(_part(each) for each in node.values)
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value


def _part(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    return "'x'" if isinstance(node, ast.FormattedValue) and node.conversion == ord("r") else "x"


def test_every_rewrite_matches_a_text_of_the_engine_or_the_client() -> None:
    texts = list(source_texts())
    unused = [code for code, (pattern, _) in REWRITES.items() if not any(map(pattern.search, texts))]
    assert unused == []


def test_every_route_in_an_engine_text_has_a_rewrite() -> None:
    sources = Path(engine.__path__[0]).rglob("*.py")
    named = [line for file in sources for line in file.read_text().splitlines() if "/v1/" in line]
    assert named
    for line in named:
        text = re.sub(r"\{\w+\}", "a-name", line)
        assert any("/v1/" not in with_commands(code, text) for code in REWRITES), text
        assert "/v1/" not in without_routes(text)


@given(st.from_regex(r"[_a-zA-Z][_a-zA-Z0-9-]{0,63}", fullmatch=True), st.text(max_size=40))
def test_submit_to_a_suspended_definition_suggests_resume(name: str, reason: str) -> None:
    refused = DefinitionSuspended(name, suspended_by(Actor("bob"), reason))
    text = with_commands(refused.code, refused.detail)
    assert text.endswith(f"until `shardmill definitions resume {name}`")
    assert suspended_by(Actor("bob"), reason) in text


def test_rejected_token_suggests_the_option() -> None:
    refused = Unauthorized()
    assert with_commands(refused.code, refused.detail).endswith("pass one with --token or SHARDMILL_TOKEN")
