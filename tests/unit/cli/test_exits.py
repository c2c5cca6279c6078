"""Errors become a message and an exit code."""

import pytest

from support.fakes.api import TOKEN, FakeApi, Run, offline, page, problem


@pytest.mark.parametrize(
    "command",
    [
        ["job", "nobody", "t1"],
        ["watch", "nobody", "t1"],
        ["tasks", "nobody", "t1", "main"],
        ["tasks", "nobody", "t1", "main", "0"],
        ["logs", "nobody", "t1", "main", "0"],
        ["logs", "nobody", "t1", "main", "0", "--follow"],
        ["graph", "nobody"],
        ["submit", "nobody"],
        ["groups", "remove", "nobody"],
        ["groups", "show", "nobody"],
        ["workers", "show", "nobody"],
        ["workers", "drain", "nobody"],
        ["workers", "forget", "nobody"],
        ["priority", "nobody", "t1", "3"],
        ["dependencies", "nobody", "t1"],
        ["history", "nobody", "t1"],
        ["suspend", "nobody", "t1"],
        ["resume", "nobody", "t1"],
        ["kill", "nobody", "t1"],
        ["kill", "nobody", "t1", "--dry-run"],
        ["rerun", "nobody", "t1", "--wait"],
        ["recompute", "nobody", "t1", "main"],
        ["schedule", "save", "nobody", "s", "--every", "5"],
        ["schedule", "show", "nobody", "s"],
        ["schedule", "next", "nobody", "s"],
        ["schedule", "next", "nobody", "s", "--from", "2026-01-01"],
        ["schedule", "on", "nobody", "s"],
        ["schedule", "off", "nobody", "s"],
        ["schedule", "delete", "nobody", "s"],
        ["schedule", "fire", "nobody", "s", "--wait"],
        ["schedule", "backfill", "nobody", "s", "--time", "2026-01-01", "--wait"],
        ["schedule", "backfill", "nobody", "s", "--from", "2026-01-01", "--to", "2026-01-02"],
        ["schedule", "stop", "nobody", "s", "1"],
    ],
)
def test_not_found_exits_3(api: FakeApi, run: Run, command: list[str]) -> None:
    api.on("POST", "/v1/jobs", problem(404, "definition-not-found", "there is no definition named 'nobody'"))
    api.on("GET", "/v1/workers", page())
    for more in ([], ["--json"]):
        result = run(*command, *more)
        assert result.exit_code == 3
        assert result.stdout == ""
        assert result.stderr.startswith("shardmill: there is no ")


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
    assert "start one with `shardmill dev`" in result.stderr


def test_unexpected_error_is_reported_without_a_traceback(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("oh no")

    monkeypatch.setattr("shardmill.client.client.Client.jobs", broken)
    result = run("jobs")
    assert result.exit_code == 1
    assert result.stderr.startswith("shardmill: unexpected RuntimeError: oh no (in broken, line ")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    def missing(*_: object, **__: object) -> None:
        raise ModuleNotFoundError("No module named 'httpx'", name="httpx")

    monkeypatch.setattr("shardmill.client.client.Client.jobs", missing)
    result = run("jobs")
    assert result.exit_code == 1
    assert "this command needs httpx" in result.stderr
