"""What is deployed to the laptop cloud: deterministic archives of the real template's code."""

import importlib.util
import io
import zipfile
from pathlib import Path
from typing import Any

import pytest

from shardmill.aws.settings import Settings
from shardmill.local import emulator_quirks, package
from shardmill.local.deploy import ARTIFACTS, Package
from shardmill.local.errors import DeployFailed
from support.paths import PROJECT

TEMPLATE = """
Resources:
  Layer:
    Type: AWS::Serverless::LayerVersion
    Metadata: {BuildMethod: makefile}
    Properties: {ContentUri: layers/core}
  Hello:
    Type: AWS::Serverless::Function
    Properties: {CodeUri: functions/hello/}
  Machine:
    Type: AWS::Serverless::StateMachine
    Properties: {DefinitionUri: machine.json, DefinitionSubstitutions: {Name: !GetAtt Hello.Arn}}
  Door:
    Type: AWS::ApiGatewayV2::Authorizer
    Properties: {AuthorizerType: REQUEST}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    files = {
        "template.yaml": TEMPLATE,
        "machine.json": '{"StartAt": "A", "States": {"A": {"Type": "Succeed"}}}',
        "functions/hello/app.py": "def handler(event, context): ...\n",
        "layers/core/python/shardmill/__init__.py": "",
        "layers/core/python/shardmill/model/base.py": "A = 1\n",
        "layers/core/python/shardmill/api/page.html": "<p>",
        "layers/core/python/shardmill/local/dev.py": "",
        "layers/core/python/shardmill/client.py": "",
        "layers/core/python/shardmill/model/__pycache__/base.pyc": "",
        "layers/core/python/shardmill/model/.hidden": "",
        "layers/core/requirements.txt": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def names(archive: bytes) -> set[str]:
    return set(zipfile.ZipFile(io.BytesIO(archive)).namelist())


def test_the_layer_has_only_the_packages_that_run_in_lambda(project: Path) -> None:
    files = package.layer_files(project / "layers/core")
    assert set(files) == {
        "python/shardmill/__init__.py",
        "python/shardmill/model/base.py",
        "python/shardmill/api/page.html",
    }


def test_same_files_give_the_same_bytes(project: Path) -> None:
    first = Package(project)
    before = first.archives()
    (project / "functions/hello/app.py").touch()
    again = Package(project)
    assert again.archives() == before
    assert again.digest == first.digest


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("functions/hello/app.py", "x = 1\n"),
        ("layers/core/python/shardmill/model/base.py", "A = 2\n"),
        ("machine.json", '{"StartAt": "B", "States": {"B": {"Type": "Succeed"}}}'),
        ("template.yaml", TEMPLATE.replace("REQUEST", "JWT")),
    ],
)
def test_the_digest_changes_with_everything_that_is_deployed(project: Path, file: str, text: str) -> None:
    before = Package(project).digest
    (project / file).write_text(text)
    assert Package(project).digest != before


def test_the_digest_ignores_what_is_not_deployed(project: Path) -> None:
    before = Package(project).digest
    (project / "layers/core/python/shardmill/local/dev.py").write_text("changed")
    (project / "README.md").write_text("changed")
    assert Package(project).digest == before


def test_python_uses_the_bytecode_in_the_layer(tmp_path: Path) -> None:
    files = package.with_bytecode({"thing.py": b"ANSWER = 42\n"})
    cached = next(name for name in files if name.endswith(".pyc"))
    (tmp_path / cached).parent.mkdir()
    (tmp_path / cached).write_bytes(files[cached])
    (tmp_path / "thing.py").write_text("raise RuntimeError('compiled anew')\n")
    spec = importlib.util.spec_from_file_location("thing", tmp_path / "thing.py")
    assert spec is not None
    assert spec.loader is not None
    thing = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(thing)
    assert thing.ANSWER == 42


def test_the_deployable_template_has_code_in_s3_and_inline_state_machines(project: Path) -> None:
    template = Package(project).deployable({"Layer": "l.zip", "Hello": "h.zip"})
    resources = template["Resources"]
    assert resources["Layer"] == {
        "Type": "AWS::Serverless::LayerVersion",
        "Properties": {"ContentUri": f"s3://{ARTIFACTS}/l.zip"},
    }
    assert resources["Hello"]["Properties"]["CodeUri"] == f"s3://{ARTIFACTS}/h.zip"
    assert resources["Machine"]["Properties"] == {
        "Definition": {"StartAt": "A", "States": {"A": {"Type": "Succeed"}}},
        "DefinitionSubstitutions": {"Name": {"Fn::GetAtt": ["Hello", "Arn"]}},
    }


def test_code_that_does_not_compile_is_reported(project: Path) -> None:
    (project / "layers/core/python/shardmill/model/base.py").write_text("def (\n")
    with pytest.raises(DeployFailed, match=r"python/shardmill/model/base.py, line 1"):
        Package(project).archives()


def test_missing_code_is_reported(project: Path) -> None:
    (project / "functions/hello/app.py").unlink()
    with pytest.raises(DeployFailed, match="functions/hello"):
        _ = Package(project).files


def test_the_makefile_of_the_layer_removes_the_same_packages() -> None:
    makefile = (PROJECT / "layers/core/Makefile").read_text()
    assert f"OUTSIDE_LAMBDA := {' '.join(package.OUTSIDE_LAMBDA)}\n" in makefile


def test_references_to_concurrency_become_numbers() -> None:
    limit = {"Fn::If": ["ReservesConcurrency", {"Ref": "RunnerReserved"}, {"Ref": "RunnerConcurrency"}]}
    mapping: dict[str, Any] = {"Properties": {"ScalingConfig": {"MaximumConcurrency": limit}}}
    template = {"Resources": {"Lane": mapping, "Other": {"Properties": {}}}}
    emulator_quirks.concurrency_as_numbers(template, {"RunnerConcurrency": "5"})
    assert mapping["Properties"]["ScalingConfig"] == {"MaximumConcurrency": 5}


_NEEDED = ("STACK", "TABLE", "BUCKET", "JOB_MACHINE", "STEP_MACHINE", "BUS", "LAMBDA_QUEUES", "DEAD_QUEUE")
SETTINGS = {f"SHARDMILL_{name}": "x" for name in _NEEDED}


def test_the_api_function_of_the_laptop_cloud_takes_large_files() -> None:
    function = {"Properties": {"Environment": {"Variables": {"A": "1"}}}}
    emulator_quirks.pass_large_bodies({"Resources": {"ApiFunction": function}})
    most = Settings.from_environment(
        {**SETTINGS, **function["Properties"]["Environment"]["Variables"]}
    ).max_body
    assert most == 100_000_000
    assert Settings.from_environment(SETTINGS).max_body == 4_500_000
