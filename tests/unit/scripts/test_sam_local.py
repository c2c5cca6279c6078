"""`make sam-local`: template and environment with which `sam local invoke` reaches `shardmill dev`."""

import json
import shutil
from pathlib import Path

import pytest
from scripts import sam_local

from shardmill.local.sam_template import load_template
from support.paths import PROJECT


def test_every_function_gets_its_variables_and_the_endpoint(tmp_path: Path) -> None:
    shutil.copy(PROJECT / "template.yaml", tmp_path)
    asked: list[str] = []

    def variables(function: str) -> dict[str, str]:
        asked.append(function)
        return {"SHARDMILL_TABLE": "the-table"}

    sam_local.write(tmp_path, "http://host:1", "mill", variables)
    environment = json.loads((tmp_path / "local-env.json").read_text())
    assert environment["SubmitFunction"] == {
        "SHARDMILL_TABLE": "the-table",
        "AWS_ENDPOINT_URL": "http://host:1",
    }
    assert len(environment) == len(asked) == len(list((PROJECT / "functions").iterdir()))
    assert "mill-submit" in asked
    declared = json.loads((tmp_path / "local.json").read_text())["Globals"]["Function"]["Environment"]
    assert {"SHARDMILL_TABLE", "AWS_ENDPOINT_URL"} <= declared["Variables"].keys()
    original = load_template(tmp_path / "template.yaml")["Globals"]["Function"]["Environment"]
    assert "AWS_ENDPOINT_URL" not in original["Variables"]  # not declared on AWS


def test_without_a_running_dev_it_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sam_local, "find_session", lambda: None)
    assert sam_local.main([]) == 1
    assert "shardmill dev" in capsys.readouterr().err
