"""The list of commands in the help of `shardmill`."""

from typer.main import get_command

from shardmill.cli.app import app
from shardmill.cli.sections import SECTIONS


def test_every_command_is_listed_once() -> None:
    listed = [name for names in SECTIONS.values() for name in names]
    commands = get_command(app).commands  # type: ignore[attr-defined]
    assert sorted(listed) == sorted(name for name, command in commands.items() if not command.hidden)
