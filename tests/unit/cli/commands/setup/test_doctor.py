"""doctor: what it checks, its advice and its exit code."""

import json
import os
import tomllib
from collections.abc import Iterator
from email.utils import formatdate
from importlib.metadata import version
from unittest.mock import patch

import pytest

from shardmill.api.meta import VERSION
from shardmill.cli import checks
from support.fakes.api import FakeApi, Reply, Run, offline, problem
from support.fakes.overview import overview
from support.paths import PROJECT

HEALTHY = {"status": "ok", "version": version("shardmill")}
IDLE = {"name": "reports", "kind": "pull", "online": 0, "slots": 0, "held": 0}
SUSPENDED = {"name": "big", "kind": "pull", "online": 1, "slots": 1, "held": 0, "suspended": "by admin: disk"}


@pytest.fixture(autouse=True)
def same_environment() -> Iterator[None]:
    with patch.dict(os.environ):
        yield


def healthy(seconds: float = 0.0) -> Reply:
    """The health check of an API whose clock is this many seconds ahead."""
    import time

    return Reply(HEALTHY, 200, {"date": formatdate(time.time() + seconds, usegmt=True)})


def verdicts(run: Run) -> dict[str, tuple[str, str]]:
    found = json.loads(run("doctor", "--json").stdout)
    return {each["check"]: (each["verdict"], each["found"]) for each in found}


def test_a_healthy_setup_passes_every_check(api: FakeApi, run: Run) -> None:
    api.on("GET", "/v1/health", healthy())
    api.on("GET", "/v1/now", overview())
    found = run("doctor")
    assert found.exit_code == 0
    assert "Everything is fine." in found.stdout
    assert "ok       group default: 1 worker, 2 of 4 slots in use" in found.stdout
    assert verdicts(run)["AWS"][0] == "skipped"


def test_a_group_without_workers_and_a_suspended_one_are_warnings(api: FakeApi, run: Run) -> None:
    api.on("GET", "/v1/health", healthy())
    api.on("GET", "/v1/now", overview(groups=[IDLE, SUSPENDED]))
    found = run("doctor")
    assert found.exit_code == 0
    assert "→ start one: shardmill worker --group reports" in found.stdout
    assert "→ resume it: shardmill groups resume big" in found.stdout
    assert "2 warnings found." in found.stdout


@pytest.mark.parametrize(("skew", "words"), [(-3_600, "ahead of"), (3_600, "behind")])
def test_a_wrong_clock_is_a_problem(api: FakeApi, run: Run, skew: float, words: str) -> None:
    api.on("GET", "/v1/health", healthy(skew))
    api.on("GET", "/v1/now", overview())
    assert run("doctor").exit_code == 1
    verdict, text = verdicts(run)["clock"]
    assert (verdict, words in text) == ("problem", True)


def test_another_version_is_a_warning(api: FakeApi, run: Run) -> None:
    api.on("GET", "/v1/health", Reply({"status": "ok", "version": "9.9"}, 200))
    api.on("GET", "/v1/now", overview())
    assert verdicts(run)["version"] == ("warning", f"the API is 9.9, the command is {version('shardmill')}")


def test_a_rejected_token_is_a_problem(api: FakeApi, run: Run) -> None:
    api.on("GET", "/v1/health", healthy())
    api.on("GET", "/v1/now", problem(401, "unauthorized", "the token is not valid"))
    found = run("doctor")
    assert found.exit_code == 1
    assert "problem  token: the token is not valid" in found.stdout


def test_an_api_that_does_not_answer_in_time_is_not_called_a_wrong_token(api: FakeApi, run: Run) -> None:
    api.on("GET", "/v1/health", healthy())
    api.on("GET", "/v1/now", problem(500, "internal", "the overview failed"))
    found = run("doctor")
    assert found.exit_code == 1
    assert "problem  overview: the overview failed" in found.stdout
    assert "SHARDMILL_TOKEN" not in found.stdout


def test_no_address_and_no_answer_are_problems() -> None:
    found = offline("doctor")
    assert (found.exit_code, "problem  address: not set" in found.stdout) == (1, True)
    found = offline("doctor", env={"SHARDMILL_URL": "http://127.0.0.1:9", "SHARDMILL_TOKEN": "x"})
    assert (found.exit_code, "problem  API: cannot reach" in found.stdout) == (1, True)


def test_a_missing_package_is_named(api: FakeApi, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "PACKAGES", {"local": ("no-such-package",)})
    api.on("GET", "/v1/health", healthy())
    api.on("GET", "/v1/now", overview())
    assert verdicts(run)["packages (local)"] == ("warning", "no-such-package missing")


def test_queues_that_cannot_be_reached_are_a_problem(api: FakeApi, run: Run) -> None:
    api.on("GET", "/v1/health", healthy())
    api.on("GET", "/v1/now", overview())
    settings = (
        "STACK",
        "TABLE",
        "BUCKET",
        "JOB_MACHINE",
        "STEP_MACHINE",
        "BUS",
        "LAMBDA_QUEUES",
        "DEAD_QUEUE",
    )
    os.environ.update({f"SHARDMILL_{name}": "x" for name in settings})
    os.environ.update(AWS_ENDPOINT_URL="http://127.0.0.1:9", AWS_MAX_ATTEMPTS="1")
    found = run("doctor")
    assert found.exit_code == 1
    assert "problem  DynamoDB" in found.stdout
    assert "check the AWS credentials" in found.stdout


def test_the_version_of_the_api_is_that_of_the_package() -> None:
    assert tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["version"] == VERSION
