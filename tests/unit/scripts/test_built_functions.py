"""The check of what `sam build` made: native code of another machine and handlers that cannot be imported."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from scripts import built_functions


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """A build with one function and a layer without native code; returns its template."""
    resources = {
        "Layer": {"Type": "AWS::Serverless::LayerVersion", "Properties": {"ContentUri": "Layer"}},
        "One": {
            "Type": "AWS::Serverless::Function",
            "Properties": {"CodeUri": "one", "Handler": "app.handler"},
        },
    }
    package = tmp_path / "Layer/python/shardmill/aws"
    package.mkdir(parents=True)
    (package / "observability.py").write_text("")
    (tmp_path / "one").mkdir()
    handler = "import boto3, shardmill.aws.observability\n\n\ndef handler(event, context): ...\n"
    (tmp_path / "one/app.py").write_text(handler)
    template = tmp_path / "template.yaml"
    template.write_text(json.dumps({"Resources": resources}))
    return template


def check(template: Path, architecture: str = "arm64") -> int:
    layer = template.parent / "Layer"
    options = ["--template", template, "--architecture", architecture, "--python", sys.executable]
    return built_functions.main([*map(str, options), "--layer", str(layer)])


def test_a_complete_build_has_no_faults(built: Path) -> None:
    assert check(built) == 0


def test_native_code_of_another_machine_is_a_fault(built: Path, capfd: pytest.CaptureFixture[str]) -> None:
    header = bytearray(20)
    header[18] = built_functions.MACHINES["x86_64"]
    (built.parent / "Layer/python/native.so").write_bytes(header)
    assert check(built, "x86_64") == 0
    assert check(built, "arm64") == 1
    assert "native.so is not built for arm64" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("import moto\nimport shardmill.aws.observability\n", "No module named 'moto'"),
        ("import shardmill.aws.observability\n", "has no attribute 'handler'"),
    ],
    ids=["missing package", "no handler"],
)
def test_a_handler_that_cannot_be_imported_is_a_fault(
    built: Path, capfd: pytest.CaptureFixture[str], code: str, error: str
) -> None:
    (built.parent / "one/app.py").write_text(code)
    assert check(built) == 1
    text = capfd.readouterr().err
    assert "One: app.handler cannot be imported" in text
    assert error in text


def test_a_build_without_functions_is_a_fault(built: Path) -> None:
    content: dict[str, Any] = json.loads(built.read_text())
    del content["Resources"]["One"]
    built.write_text(json.dumps(content))
    assert check(built) == 1
