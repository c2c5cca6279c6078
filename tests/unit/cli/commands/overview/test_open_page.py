"""open: the addresses of the dashboard."""

import json

import pytest

from support.fakes.api import TOKEN, offline

URL = "http://127.0.0.1:7700"
ENV = {"SHARDMILL_URL": f"{URL}/", "SHARDMILL_TOKEN": TOKEN}


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ([], "/"),
        (["report"], "/#/definitions/report"),
        (["report", "t1"], "/#/jobs/report/t1"),
        (["report", "a:b"], "/#/jobs/report/a%3Ab"),
    ],
)
def test_print_shows_the_address(arguments: list[str], path: str) -> None:
    assert offline("open", *arguments, "--print", env=ENV).stdout == f"{URL}{path}\n"
    assert json.loads(offline("open", *arguments, "--json", env=ENV).stdout) == {"url": f"{URL}{path}"}


@pytest.mark.parametrize("works", [True, False])
def test_a_browser_is_started(monkeypatch: pytest.MonkeyPatch, works: bool) -> None:
    opened: list[str] = []

    def start(address: str) -> bool:
        opened.append(address)
        return works

    monkeypatch.setattr("webbrowser.open", start)
    found = offline("open", "report", "t1", env=ENV)
    assert opened == [f"{URL}/#/jobs/report/t1"]
    assert found.stdout == f"{opened[0]}\n"
    assert ("open the address yourself" in found.stderr) is not works
