"""A test that failed in a group of xdist is found by the run that repeats failures."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from support.paths import PROJECT

SUITE = """
import os, pytest

@pytest.mark.xdist_group("shared")
@pytest.mark.parametrize("address", ["a@b"])
def test_grouped(address):
    assert "FAIL" not in os.environ

@pytest.mark.parametrize("address", ["a@b", "c"])
def test_alone(address):
    assert "FAIL" not in os.environ or address != "a@b"

def test_passes():
    assert True
"""


def test_a_rerun_of_failures_runs_these_and_no_others(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from support.failed_tests import pytest_runtest_logreport\n")
    (tmp_path / "test_suite.py").write_text(SUITE)
    assert _outcomes(tmp_path, "-n", "1", "--dist", "loadgroup", FAIL="1") == {"failed": 2, "passed": 2}
    again = _outcomes(tmp_path, "--last-failed", "--last-failed-no-failures", "none")
    assert again == {"passed": 2}


def _outcomes(folder: Path, *options: str, **environ: str) -> dict[str, int]:
    command = [sys.executable, "-m", "pytest", "-q", "--rootdir", str(folder), *options]
    path = {"PYTHONPATH": str(PROJECT / "tests")}
    done = subprocess.run(
        command, cwd=folder, env=os.environ | path | environ, capture_output=True, text=True, timeout=50
    )
    summary = done.stdout.splitlines()[-1]
    return {word: int(count) for count, word in re.findall(r"(\d+) (passed|failed)", summary)}
