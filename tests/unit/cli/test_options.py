"""Options shared by commands."""

import json

import pytest
from typer.main import get_command

from shardmill.cli.app import app
from support.fakes.api import FakeApi, Run, group, output_of, page, worker


@pytest.mark.parametrize("command", [["groups", "--json", "show", "g"], ["workers", "--json", "show", "w1"]])
def test_options_are_accepted_before_a_subcommand(api: FakeApi, run: Run, command: list[str]) -> None:
    api.on("GET", "/v1/groups/g", group())
    api.on("GET", "/v1/workers", page(worker()))
    assert json.loads(output_of(run(*command)))["name"] in ("g", "w1")


@pytest.mark.parametrize(
    "command",
    ["suspend", "resume", "kill", "rerun", "recompute", "force", "delete", "change", "priority"],
)
def test_commands_for_many_jobs_share_their_options(command: str) -> None:
    parameters = get_command(app).commands[command].params  # type: ignore[attr-defined]
    assert [each.name for each in parameters[:2]] == ["job_name", "trigger"]
    options = {option for each in parameters for option in each.opts}
    assert options >= {"--job", "--state", "--since", "--until", "--downstream", "--dry-run", "--yes", "-y"}
    assert options >= {"--url", "--token", "--json"}
