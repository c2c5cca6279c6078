"""`make sam-local`: template and environment with which `sam local invoke` reaches `shardmill dev`."""

import json
import shutil
from pathlib import Path

import pytest
from scripts import sam_local
from scripts.built_functions import MACHINES

from shardmill.local.sam_template import load_template
from support.paths import PROJECT


@pytest.fixture
def build(tmp_path: Path) -> Path:
    """A build for x86_64, which is not the default of the template."""
    shutil.copy(PROJECT / "template.yaml", tmp_path)
    native = tmp_path / "CoreLayer/python/native.so"
    native.parent.mkdir(parents=True)
    native.write_bytes(b"\x7fELF" + bytes(14) + MACHINES["x86_64"].to_bytes(2, "little"))
    return tmp_path


def test_the_container_is_of_the_architecture_of_the_build(build: Path) -> None:
    """`sam` chooses it by the default of the parameter; the packages of another architecture do not start."""
    sam_local.write(build, "http://host:1", "mill", lambda function: {})
    parameters = json.loads((build / "local.json").read_text())["Parameters"]
    assert parameters["Architecture"]["Default"] == "x86_64"
    assert load_template(build / "template.yaml")["Parameters"]["Architecture"]["Default"] == "arm64"


def test_every_function_gets_its_variables_and_the_endpoint(build: Path) -> None:
    asked: list[str] = []

    def variables(function: str) -> dict[str, str]:
        asked.append(function)
        return {"SHARDMILL_TABLE": "the-table"}

    sam_local.write(build, "http://host:1", "mill", variables)
    environment = json.loads((build / "local-env.json").read_text())
    assert environment["SubmitFunction"] == {
        "SHARDMILL_TABLE": "the-table",
        "AWS_ENDPOINT_URL": "http://host:1",
        "AWS_REGION": "us-east-1",  # of the laptop cloud, whatever the user's is
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    assert len(environment) == len(asked) == len(list((PROJECT / "functions").iterdir()))
    assert "mill-submit" in asked
    declared = json.loads((build / "local.json").read_text())["Globals"]["Function"]["Environment"]
    assert {"SHARDMILL_TABLE", "AWS_ENDPOINT_URL", "AWS_REGION", "AWS_DEFAULT_REGION"} <= declared[
        "Variables"
    ].keys()
    original = load_template(build / "template.yaml")["Globals"]["Function"]["Environment"]
    assert "AWS_ENDPOINT_URL" not in original["Variables"]  # not declared on AWS


def test_without_a_running_dev_the_error_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sam_local, "find_session", lambda: None)
    assert sam_local.main([]) == 1
    assert "shardmill dev" in capsys.readouterr().err
