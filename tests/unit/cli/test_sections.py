"""The list of commands in the help of `shardmill`, and groups that list without a command."""

import pytest
from typer.main import get_command

from shardmill.cli.app import app
from shardmill.cli.sections import SECTIONS
from support.fakes.api import FakeApi, Run, output_of, page


def test_every_command_is_listed_once() -> None:
    listed = [name for names in SECTIONS.values() for name in names]
    commands = get_command(app).commands  # type: ignore[attr-defined]
    assert sorted(listed) == sorted(name for name, command in commands.items() if not command.hidden)


@pytest.mark.parametrize("name", ["definitions", "groups", "workers"])
def test_list_is_the_same_as_no_command(api: FakeApi, run: Run, name: str) -> None:
    api.on("GET", f"/v1/{name}", page())
    assert output_of(run(name, "list", "--json")) == output_of(run(name, "--json")) == "[]\n"
