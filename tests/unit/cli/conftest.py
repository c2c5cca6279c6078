"""Fixtures for tests of the command line."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.fakes.api import FakeApi, Run, command_line


@pytest.fixture(autouse=True)
def isolated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Run in an empty folder, without access to a `shardmill dev` that runs on this machine."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@pytest.fixture
def run(api: FakeApi) -> Iterator[Run]:
    """Run a command against the fake API."""
    with command_line(api) as found:
        yield found
