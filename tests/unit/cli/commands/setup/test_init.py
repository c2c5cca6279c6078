"""init: a starter project that is valid and runs, and never overwrites a file."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from shardmill.model.definition.validation import check_definition
from support.fakes.api import offline, output_of


def test_the_project_is_valid_and_its_program_runs(tmp_path: Path) -> None:
    output_of(offline("init", "my-job"))
    folder = tmp_path / "my-job"
    define, faults = check_definition(yaml.safe_load((folder / "job.yaml").read_text()))
    assert (faults, define and define.job_name) == ([], "my-job")
    program = [sys.executable, str(folder / "program.py")]
    counts = []
    for shard in range(4):
        command = [*program, "count", "--text", str(folder / "text.txt"), "--shard", str(shard), "--of", "4"]
        output = tmp_path / f"output-{shard}"
        subprocess.run(command, env={**os.environ, "SHARDMILL_OUTPUT": str(output)}, check=True, timeout=30)
        counts.append(json.loads(output.read_text()))
    report = subprocess.run(
        [*program, "report", "--counts", json.dumps(counts)],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    words = len((folder / "text.txt").read_text().split())
    assert report.stdout == f"{words} words in 4 parts\n"


def test_the_comments_of_the_commands_in_its_readme_are_aligned(tmp_path: Path) -> None:
    output_of(offline("init", "a-project-with-a-longer-name"))
    readme = (tmp_path / "a-project-with-a-longer-name" / "README.md").read_text()
    commands = [line for line in readme.splitlines() if line.startswith("shardmill ")]
    assert len(commands) == 6
    assert len({line.index("# ") for line in commands}) == 1


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("mine")
    found = offline("init", "--name", "mine")
    assert found.exit_code == 1
    assert "already has program.py; nothing was written" in found.stderr
    assert [each.name for each in tmp_path.iterdir() if each.is_file()] == ["program.py"]
    assert (tmp_path / "program.py").read_text() == "mine"


@pytest.mark.parametrize(("folder", "name"), [("a b.c", "a-b-c"), ("x_1", "x_1")])
def test_the_job_is_named_after_the_folder(folder: str, name: str) -> None:
    assert json.loads(output_of(offline("init", folder, "--json")))["jobName"] == name


def test_invalid_names_and_unwritable_folders_are_rejected(tmp_path: Path) -> None:
    assert offline("init", "--name", "a/b").exit_code == 2
    (tmp_path / "file").write_text("")
    found = offline("init", "file/below", "--name", "x")
    assert (found.exit_code, "cannot write" in found.stderr) == (1, True)
