"""tasks: the list, and one task with its attempts."""

import json

from support.fakes.api import NOW, FakeApi, Run, page, task, worker

JOB = "/v1/jobs/report/t1"


def test_tasks_are_listed(api: FakeApi, run: Run) -> None:
    api.on(
        "GET", f"{JOB}/steps/main/tasks", page(task(0, worker="w1"), cursor="c"), page(task(1, "READY", 0))
    )
    lines = run("tasks", "report", "t1", "main").stdout.splitlines()
    assert [line.split()[:4] for line in lines] == [
        ["INDEX", "STATE", "ATTEMPT", "WORKER"],
        ["0", "SUCCESS", "1", "w1"],
        ["1", "READY", "0", "-"],
    ]
    api.on("GET", f"{JOB}/steps/main/tasks", page(task(0), task(1)))
    result = run("tasks", "report", "t1", "main", "--state", "SUCCESS", "--limit", "1", "--json")
    assert [each["rank"] for each in json.loads(result.stdout)] == [0]
    assert api.requests[-1].query == {"state": "SUCCESS", "limit": "1"}


def test_worker_names_are_read_once(api: FakeApi, run: Run) -> None:
    api.on("GET", "/v1/workers", page(worker("aaaaaaaa", "host-17")))
    tasks = [task(0, worker="aaaaaaaa"), task(1, worker="forgotten"), task(2, worker="aaaaaaaa")]
    api.on("GET", f"{JOB}/steps/main/tasks", page(*tasks))
    lines = run("tasks", "report", "t1", "main").stdout.splitlines()
    assert [line.split()[3] for line in lines[1:]] == ["host-17", "forgotten", "host-17"]
    assert api.request_lines.count("GET /v1/workers") == 1
    found = json.loads(run("tasks", "report", "t1", "main", "--json").stdout)
    assert [each["worker"] for each in found] == ["aaaaaaaa", "forgotten", "aaaaaaaa"]
    assert api.request_lines.count("GET /v1/workers") == 1


def test_tasks_are_listed_if_worker_names_cannot_be_read(api: FakeApi, run: Run) -> None:
    api.on("GET", f"{JOB}/steps/main/tasks", page(task(0, worker="aaaaaaaa"), task(1, worker="b")))
    result = run("tasks", "report", "t1", "main")
    assert result.exit_code == 0
    assert [line.split()[3] for line in result.stdout.splitlines()[1:]] == ["aaaaaaaa", "b"]
    assert (
        result.stderr.count(
            "cannot read the names of workers, showing their IDs instead: there is no /v1/workers"
        )
        == 1
    )


def test_task_is_shown_with_attempts_and_last_output(api: FakeApi, run: Run) -> None:
    failed = {
        "attempt": 1,
        "worker": "aaaaaaaa",
        "startTime": NOW,
        "endTime": "2026-11-16T02:17:21.623Z",
        "exitCode": 3,
        "reason": "failed",
        "message": "exit code 3",
        "outcome": "failed",
        "stderr": "".join(f"line {number}\n" for number in range(30)) + "bo\x1bom\n",
    }
    silent = {"attempt": 2, "worker": "forgotten", "startTime": NOW, "reason": "lost"}
    api.on("GET", "/v1/workers", page(worker("aaaaaaaa", "host-17")))
    shown = task(5, "FAILED", 2, attempts=[failed, silent], output={"rows": 1})
    api.on("GET", f"{JOB}/steps/main/tasks/5", shown)
    lines = run("tasks", "report", "t1", "main", "5").stdout.splitlines()
    assert lines[0] == "report t1 main 5 FAILED"
    assert '  output     {"rows": 1}' in lines
    at = next(at for at, line in enumerate(lines) if line.startswith("ATTEMPT"))
    assert lines[at].split() == [
        "ATTEMPT",
        "WORKER",
        "STARTED",
        "DURATION",
        "EXIT",
        "CODE",
        "REASON",
        "MESSAGE",
    ]
    first = ["1", "host-17", "2026-11-16T02:17:19Z", "2.5", "s", "3", "failed", "exit", "code", "3"]
    assert lines[at + 1].split() == first
    assert lines[at + 2].split() == ["2", "forgotten", "2026-11-16T02:17:19Z", "-", "-", "lost", "-"]
    assert lines[at + 4] == "Last lines of stderr of attempt 1:"
    assert lines[at + 5 :] == [*(f"  line {number}" for number in range(21, 30)), "  bo om"]
    found = json.loads(run("tasks", "report", "t1", "main", "5", "--json").stdout)
    assert [each["reason"] for each in found["attempts"]] == ["failed", "lost"]


def test_task_without_stderr_shows_its_stdout(api: FakeApi, run: Run) -> None:
    done = {"attempt": 1, "outcome": "success", "exitCode": 0, "stdout": "42\n", "stderr": "\n"}
    api.on("GET", f"{JOB}/steps/main/tasks/0", task(0, attempts=[done]))
    text = run("tasks", "report", "t1", "main", "0").stdout
    assert text.endswith("\nLast lines of stdout of attempt 1:\n  42\n")
    api.on("GET", f"{JOB}/steps/main/tasks/0", task(0, "READY", 0))
    assert run("tasks", "report", "t1", "main", "0").stdout == "report t1 main 0 READY\n  id         x_0_0\n"
    assert "GET /v1/workers" not in api.request_lines
