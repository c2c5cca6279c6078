"""The command line against a running `shardmill dev`."""

import json
from pathlib import Path

import pytest

from support.laptop import Laptop
from support.paths import PROJECT

EXAMPLE = PROJECT / "examples" / "balance-report.yaml"


def test_a_job_is_defined_submitted_and_read(laptop: Laptop, tmp_path: Path) -> None:
    defined = laptop.run("define", str(EXAMPLE))
    assert defined.returncode == 0, defined.stderr
    submitted = laptop.run(
        "submit",
        "balance-report",
        "--trigger",
        "cli1",
        "--param",
        f"folder={tmp_path}",
        "--param",
        "pause=0",
        "--wait",
    )
    assert submitted.returncode == 0, submitted.stderr
    job = json.loads(laptop.run("job", "balance-report", "cli1", "--json").stdout)
    assert (job["state"], job["params"]["folder"]) == ("SUCCESS", str(tmp_path))
    assert [step["counts"] for step in job["steps"]] == [{"SUCCESS": 12}, {"SUCCESS": 1}]
    tasks = json.loads(laptop.run("tasks", "balance-report", "cli1", "generate_files", "--json").stdout)
    assert len(tasks) == 12
    log = laptop.run("logs", "balance-report", "cli1", "merge_files", "0")
    assert log.returncode == 0
    assert log.stdout
    assert "balance-report" in laptop.run("jobs").stdout
    assert "generate_files" in laptop.run("graph", "balance-report", "--format", "mermaid").stdout


def test_exit_codes_of_failed_slow_missing_and_invalid_requests(laptop: Laptop, tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text(
        json.dumps({"jobName": "cli-bad", "steps": [{"stepName": "a", "type": "shell", "content": "exit 3"}]})
    )
    slow = tmp_path / "slow.yaml"
    slow.write_text(
        "jobName: cli-slow\nsteps:\n  - {stepName: a, type: shell, content: sleep 20, timeoutSeconds: 5}\n"
    )
    assert laptop.run("define", str(bad), str(slow)).returncode == 0
    assert laptop.run("submit", "cli-bad", "--wait").returncode == 4
    assert laptop.run("submit", "cli-slow", "--wait", "--timeout", "1").returncode == 5
    missing = laptop.run("job", "cli-bad", "nothing")
    assert missing.returncode == 3
    assert missing.stdout == ""
    assert "nothing" in missing.stderr
    assert laptop.run("submit").returncode == 2


@pytest.mark.parametrize(
    "text", ["{", "jobName: x\nstep: []\n", "jobName: x\nsteps: [{stepName: a, sharding: 0}]\n"]
)
def test_invalid_files_are_rejected_with_a_reason(laptop: Laptop, tmp_path: Path, text: str) -> None:
    path = tmp_path / "invalid.yaml"
    path.write_text(text)
    for command in ("validate", "define"):
        result = laptop.run(command, str(path))
        assert result.returncode not in (0, 3)
        assert "Traceback" not in result.stderr
        assert len(result.stderr) > 20
