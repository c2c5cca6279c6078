"""Errors become a message and an exit code."""

import pytest

from support.fakes.api import TOKEN, FakeApi, Run, offline, page, problem


@pytest.mark.parametrize(
    "command",
    [
        ["job", "missing", "t1"],
        ["watch", "missing", "t1"],
        ["tasks", "missing", "t1", "main"],
        ["tasks", "missing", "t1", "main", "0"],
        ["logs", "missing", "t1", "main", "0"],
        ["logs", "missing", "t1", "main", "0", "--follow"],
        ["graph", "missing"],
        ["submit", "missing"],
        ["groups", "remove", "missing"],
        ["groups", "show", "missing"],
        ["workers", "show", "missing"],
        ["workers", "drain", "missing"],
        ["workers", "forget", "missing"],
        ["priority", "missing", "t1", "3"],
        ["dependencies", "missing", "t1"],
        ["history", "missing", "t1"],
        ["suspend", "missing", "t1"],
        ["resume", "missing", "t1"],
        ["kill", "missing", "t1"],
        ["kill", "missing", "t1", "--dry-run"],
        ["rerun", "missing", "t1", "--wait"],
        ["recompute", "missing", "t1", "main"],
        ["schedule", "save", "missing", "s", "--every", "5"],
        ["schedule", "show", "missing", "s"],
        ["schedule", "next", "missing", "s"],
        ["schedule", "next", "missing", "s", "--from", "2026-01-01"],
        ["schedule", "on", "missing", "s"],
        ["schedule", "off", "missing", "s"],
        ["schedule", "delete", "missing", "s"],
        ["schedule", "fire", "missing", "s", "--wait"],
        ["schedule", "backfill", "missing", "s", "--time", "2026-01-01", "--wait"],
        ["schedule", "backfill", "missing", "s", "--from", "2026-01-01", "--to", "2026-01-02"],
        ["schedule", "stop", "missing", "s", "1"],
    ],
)
def test_not_found_exits_3(api: FakeApi, run: Run, command: list[str]) -> None:
    api.on("POST", "/v1/jobs", problem(404, "definition-not-found", "there is no definition named 'missing'"))
    api.on("GET", "/v1/workers", page())
    for more in ([], ["--json"]):
        result = run(*command, *more)
        assert result.exit_code == 3
        assert result.stdout == ""
        assert result.stderr.startswith("shardmill: there is no ")


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--state", "BLA", "'--state': 'BLA' is not one of 'init'"),
        ("--limit", "0", "'--limit': it must be greater"),
    ],
)
def test_a_wrong_value_of_an_option_exits_2_in_plain_words(
    run: Run, option: str, value: str, words: str
) -> None:
    result = run("jobs", option, value)
    assert result.exit_code == 2
    assert words in result.stderr


def test_other_errors_exit_1_with_their_faults(api: FakeApi, run: Run) -> None:
    fault = {"pointer": "/params/x", "code": "bad-value", "message": "is bad"}
    api.on("POST", "/v1/jobs", problem(422, "invalid-request", "the request is not valid", faults=[fault]))
    result = run("submit", "report")
    assert result.exit_code == 1
    assert result.stderr == "shardmill: the request is not valid\nshardmill:   /params/x: is bad\n"


def test_rejected_token_exits_1(api: FakeApi, run: Run) -> None:
    api.on("GET", "/v1/jobs", problem(401, "unauthorized", "the token is not valid"))
    result = run("jobs")
    assert (result.exit_code, result.stderr) == (1, "shardmill: the token is not valid\n")


def test_unreachable_server_exits_1() -> None:
    result = offline("jobs", "--url", "http://127.0.0.1:9", "--token", TOKEN)
    assert result.exit_code == 1
    assert result.stderr.startswith("shardmill: cannot reach Shardmill at http://127.0.0.1:9: ")


def test_missing_url_exits_1() -> None:
    result = offline("jobs")
    assert result.exit_code == 1
    assert "start it on this machine with `shardmill dev`" in result.stderr


def test_unexpected_error_is_reported_without_a_traceback(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("oh no")

    monkeypatch.setattr("shardmill.client.client.Client.jobs", broken)
    result = run("jobs")
    assert result.exit_code == 1
    assert result.stderr.startswith("shardmill: unexpected RuntimeError: oh no (in broken, line ")


def test_missing_package_is_reported(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    def missing(*_: object, **__: object) -> None:
        raise ModuleNotFoundError("No module named 'httpx'", name="httpx")

    monkeypatch.setattr("shardmill.client.client.Client.jobs", missing)
    result = run("jobs")
    assert result.exit_code == 1
    assert "this command needs httpx" in result.stderr
