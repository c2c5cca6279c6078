"""Every command against an API on loopback that answers what the test told it to."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from shardmill.cli.app import app
from shardmill.engine.errors import DefinitionNotFound, ScheduleNotFound
from support.fakes.api import NOW, TOKEN, FakeApi, Reply, job, listed, log, page, problem, saved, step, task

Run = Callable[..., Result]
JOB = "/v1/jobs/report/t1"


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@pytest.fixture(autouse=True)
def nobody_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No `dev` that happens to run on this machine takes part."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run(api: FakeApi) -> Iterator[Run]:
    runner = CliRunner()
    with api.served() as url:

        def invoke(*arguments: str, **more: Any) -> Result:
            result = runner.invoke(app, [*arguments, "--url", url, "--token", TOKEN], **more)
            assert "Traceback" not in result.output
            return result

        yield invoke


def offline(*arguments: str, **more: Any) -> Result:
    return CliRunner().invoke(app, list(arguments), **more)


def test_validate_says_what_is_valid(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("jobName: a\nsteps:\n- {stepName: x, sharding: 12}\n- {stepName: y}\n")
    result = offline("validate", str(file))
    assert (result.exit_code, result.stdout, result.stderr) == (0, "a is valid: 2 steps, 13 tasks\n", "")
    result = offline("validate", str(file), "--json")
    assert json.loads(result.stdout) == {"valid": True, "faults": []}


def test_validate_lists_every_fault_with_its_pointer(tmp_path: Path) -> None:
    file = tmp_path / "job.json"
    file.write_text('{"jobName": "a", "steps": [{"stepName": "1", "shards": 2}]}')
    result = offline("validate", str(file))
    assert result.exit_code == 1
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert lines[0].endswith("job.json is not a valid definition: 2 faults")
    assert lines[1].startswith("shardmill:   /steps/0/shards: unknown field 'shards'")
    assert lines[2].startswith("shardmill:   /steps/0/stepName: must start with")
    result = offline("validate", str(file), "--json")
    assert result.exit_code == 1
    assert [fault["pointer"] for fault in json.loads(result.stdout)["faults"]] == [
        "/steps/0/shards",
        "/steps/0/stepName",
    ]


def test_validate_reads_standard_input() -> None:
    assert offline("validate", "-", input="jobName: a\ntype: noop\n").exit_code == 0


@pytest.mark.parametrize("text", ["a: 1\na: 2\n", "{", ""])
def test_what_cannot_be_read_is_one_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.yaml").write_text(text)
    result = offline("validate", "x.yaml")
    assert result.exit_code == 1
    assert result.stderr.startswith("shardmill: x.yaml")
    assert len(result.stderr.splitlines()) == 1


def test_define_saves_files_in_order(api: FakeApi, run: Run, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text(f"jobName: {name}\ntype: noop\n")
        api.on("PUT", f"/v1/definitions/{name}", saved(name))
    api.on("POST", "/v1/definitions:validate", {"valid": True, "faults": []})
    result = run("define", "a.yaml", "b.yaml")
    assert result.exit_code == 0
    assert result.stdout == "a version 3 saved: 1 step, 4 tasks\nb version 3 saved: 1 step, 4 tasks\n"
    result = run("define", "a.yaml", "b.yaml", "--json")
    assert [json.loads(line)["jobName"] for line in result.stdout.splitlines()] == ["a", "b"]


def test_define_saves_nothing_if_one_file_is_bad(api: FakeApi, run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("jobName: a\ntype: noop\n")
    (tmp_path / "b.yaml").write_text("jobName: b\n")
    fault = {"pointer": "/steps", "code": "missing-field", "message": "is required"}
    good, bad = {"valid": True, "faults": []}, {"valid": False, "faults": [fault]}
    api.on("POST", "/v1/definitions:validate", good, bad)
    result = run("define", "a.yaml", "b.yaml")
    assert result.exit_code == 1
    assert "b.yaml is not a valid definition: 1 fault\nshardmill:   /steps: is required" in result.stderr
    assert {each.method for each in api.seen} == {"POST"}


def test_definitions(api: FakeApi, run: Run) -> None:
    api.on("GET", "/v1/definitions", page(listed(description="line\nbreak\x1b[31m")))
    result = run("definitions")
    heading, row = result.stdout.splitlines()
    assert heading.split() == ["JOB", "VERSION", "STEPS", "UPDATED", "USER", "DESCRIPTION"]
    assert row.split() == ["report", "3", "2", "2026-11-16T02:17:19Z", "admin", "line", "break", "[31m"]
    assert json.loads(run("definitions", "--json").stdout)[0]["version"] == 3


@pytest.mark.parametrize(
    ("command", "path"),
    [
        (["definitions"], "/v1/definitions"),
        (["jobs"], "/v1/jobs"),
        (["groups"], "/v1/groups"),
        (["workers"], "/v1/workers"),
        (["tasks", "report", "t1", "main"], f"{JOB}/steps/main/tasks"),
        (["dependencies", "report", "t1"], f"{JOB}/dependencies"),
        (["history", "report", "t1"], f"{JOB}/history"),
        (["schedule", "list"], "/v1/schedules"),
        (["schedule", "list", "report"], "/v1/schedules/report"),
        (["schedule", "next", "report", "s"], "/v1/schedules/report/s/next"),
        (["schedule", "backfills", "report", "s"], "/v1/schedules/report/s/backfills"),
    ],
)
def test_an_empty_list_is_an_empty_list(api: FakeApi, run: Run, command: list[str], path: str) -> None:
    api.on("GET", path, page())
    assert json.loads(run(*command, "--json").stdout) == []
    assert len(run(*command).stdout.splitlines()) == 1


def test_submit(api: FakeApi, run: Run) -> None:
    api.on("POST", "/v1/jobs", Reply(job("INIT"), 202))
    result = run(
        *["submit", "report", "--trigger", "t1", "--param", "a=1=2", "--param", "b="],
        *["--step-param", "main.k.l=v", "--step-param", "main.m=w", "--step-param", "other.k=x"],
    )
    assert (result.exit_code, result.stdout, result.stderr) == (0, "report t1 INIT\n", "")
    assert api.seen[0].document == {
        "jobName": "report",
        "trigger": "t1",
        "params": {"a": "1=2", "b": ""},
        "steps": [
            {"stepName": "main", "params": {"k.l": "v", "m": "w"}},
            {"stepName": "other", "params": {"k": "x"}},
        ],
    }
    assert json.loads(run("submit", "report", "--json").stdout)["jobName"] == "report"


@pytest.mark.parametrize(
    "arguments",
    [
        ["submit"],
        ["submit", "report", "--param", "novalue"],
        ["submit", "report", "--param", "=v"],
        ["submit", "report", "--param", "a=1", "--param", "a=2"],
        ["submit", "report", "--step-param", "k=v"],
        ["submit", "report", "--step-param", ".k=v"],
        ["submit", "report", "--step-param", "s.k=1", "--step-param", "s.k=2"],
        ["submit", "report", "--timeout", "3"],
        ["submit", "report", "--wait", "--timeout", "-1"],
        ["nonsense"],
        ["jobs", "--nonsense"],
        ["jobs", "--state", "NONSENSE"],
        ["jobs", "--limit", "0"],
        ["logs", "report", "t1", "main", "x"],
        ["logs", "report", "t1", "main", "-1"],
        ["logs", "report", "t1", "main", "0", "--attempt", "0"],
        ["tasks", "report", "t1", "main", "x"],
        ["tasks", "report", "t1", "main", "0", "--state", "FAILED"],
        ["tasks", "report", "t1", "main", "0", "--limit", "1"],
        ["job", "a/b", "t1"],
        ["job", "report", "bad trigger"],
        ["graph", "a.yaml", "--format", "png"],
        ["graph"],
        ["graph", "report", "--jobs"],
        ["job", "report", "t1", "--run", "0"],
        ["tasks", "report", "t1", "main", "--run", "x"],
        ["history", "report"],
        ["recompute", "report", "t1"],
        ["recompute", "report", "t1", "main", "--timeout", "3"],
        ["dependencies", "report"],
        ["dependencies", "report", "bad trigger"],
        ["schedule", "nonsense"],
        ["schedule", "show", "report"],
        ["schedule", "show", "report", "1x"],
        ["schedule", "list", "a/b"],
        ["schedule", "next", "report", "s", "--count", "0"],
        ["schedule", "next", "report", "s", "--count", "1001"],
        ["schedule", "next", "report", "s", "--from", "soon"],
        ["schedule", "fire", "report", "s", "--data-time", "soon"],
        ["schedule", "fire", "report", "s", "--param", "x"],
        ["schedule", "fire", "report", "s", "--timeout", "3"],
        ["schedule", "stop", "report", "s"],
        ["schedule", "stop", "report", "s", "0"],
        ["schedule", "stop", "report", "s", "1000000"],
        ["groups", "add", "g", "--lease-seconds", "1"],
        ["groups", "add", "g", "--kind", "push"],
        ["groups", "add", "g", "--type", "nonsense"],
        ["groups", "show"],
        ["workers", "--status", "AWAY"],
        ["workers", "--busy", "drain", "w1"],
        ["workers", "drain"],
        ["priority", "report", "t1"],
        ["priority", "report", "t1", "high"],
        ["priority", "report", "t1", "1", "--nonsense"],
        ["dev", "--port", "0"],
        ["dev", "--workers", "-1"],
        ["worker", "--slots", "0"],
        ["worker", "--group", "bad name"],
        ["worker", "--name", "x" * 300],
        ["worker", "--work-dir", "/nonexistent"],
        ["worker", "--max-load", "-1"],
        ["worker", "--min-disk", "much"],
        ["worker", "--domain", "x" * 300],
        ["worker", "--log-format", "xml"],
        ["worker", "--metrics-port", "70000"],
    ],
)
def test_wrong_usage_is_2_and_asks_nobody(arguments: list[str]) -> None:
    result = offline(*arguments, env={"SHARDMILL_URL": "http://127.0.0.1:9", "SHARDMILL_TOKEN": TOKEN})
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr


def test_submit_and_wait_succeeds(api: FakeApi, run: Run) -> None:
    api.on("POST", "/v1/jobs", Reply(job("INIT"), 202))
    api.on("GET", JOB, job("RUNNING", step()), job("SUCCESS", step(state="SUCCESS", done=4)))
    result = run("submit", "report", "--trigger", "t1", "--wait")
    assert result.exit_code == 0
    assert result.stdout.startswith("report t1 SUCCESS\n")
    assert "step main RUNNING (0 of 4 tasks)" in result.stderr
    assert "job report/t1 SUCCESS" in result.stderr


@pytest.mark.parametrize("more", [[], ["--json"], ["--wait"]])
def test_submitting_the_same_again_says_that_it_exists(api: FakeApi, run: Run, more: list[str]) -> None:
    api.on("POST", "/v1/jobs", Reply(job("SUCCESS"), 200))
    api.on("GET", JOB, job("SUCCESS"))
    result = run("submit", "report", "--trigger", "t1", *more)
    assert result.exit_code == 0
    assert "report/t1 already exists" in result.stderr
    assert "submitted" not in result.stderr
    assert "exists" not in result.stdout


def test_submit_and_wait_in_json_is_one_document(api: FakeApi, run: Run) -> None:
    api.on("POST", "/v1/jobs", Reply(job("INIT"), 202))
    api.on("GET", JOB, job("RUNNING"), job("SUCCESS"))
    result = run("submit", "report", "--trigger", "t1", "--wait", "--json")
    assert json.loads(result.stdout)["state"] == "SUCCESS"


@pytest.mark.parametrize(
    "command", [["watch", "report", "t1"], ["submit", "report", "--trigger", "t1", "--wait"]]
)
def test_a_job_that_failed_is_4_and_says_why(api: FakeApi, run: Run, command: list[str]) -> None:
    api.on("POST", "/v1/jobs", Reply(job("INIT"), 202))
    api.on(
        "GET",
        JOB,
        job("FAILED", step("ok", "SUCCESS"), step("main", "FAILED", index=1), notes="main: 2 failed"),
    )
    api.on("GET", f"{JOB}/steps/main/tasks", page(task(5, "FAILED")))
    api.on("GET", f"{JOB}/steps/main/tasks/5", task(5, "FAILED", reason="exit code 3", stderr="one\ntwo\n"))
    result = run(*command)
    assert result.exit_code == 4
    assert "job report/t1 is FAILED" in result.stderr
    assert "task 5 of step main failed: exit code 3\nshardmill:   one\nshardmill:   two\n" in result.stderr
    assert "shardmill logs report t1 main 5 --stderr" in result.stderr
    assert "main: 2 failed" in result.stdout


def test_a_failure_that_cannot_be_explained_is_still_4(api: FakeApi, run: Run) -> None:
    api.on("GET", JOB, job("FAILED", step("main", "FAILED")))
    result = run("watch", "report", "t1")
    assert result.exit_code == 4
    assert "cannot read why step main failed" in result.stderr


@pytest.mark.parametrize("state", ["KILLED", "DELETED"])
def test_a_job_that_was_stopped_is_4(api: FakeApi, run: Run, state: str) -> None:
    api.on("GET", JOB, job(state))
    assert run("watch", "report", "t1").exit_code == 4


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_waiting_too_long_is_5(api: FakeApi, run: Run, more: list[str]) -> None:
    api.on("POST", "/v1/jobs", Reply(job("INIT"), 202))
    api.on("GET", JOB, job("RUNNING"))
    result = run("submit", "report", "--trigger", "t1", "--wait", "--timeout", "0.2", *more)
    assert result.exit_code == 5
    assert "is still RUNNING" in result.stderr
    if more:
        assert json.loads(result.stdout)["state"] == "RUNNING"
    assert run("watch", "report", "t1", "--timeout", "0.2", *more).exit_code == 5


def test_watch_in_json_is_a_line_for_each_change(api: FakeApi, run: Run) -> None:
    running = job("RUNNING", step())
    api.on("GET", JOB, running, running, job("RUNNING", step(done=2)), job("SUCCESS"))
    result = run("watch", "report", "t1", "--json")
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert [each["state"] for each in found] == ["RUNNING", "RUNNING", "SUCCESS"]
    assert [step["remainWork"] for each in found for step in each["steps"]] == [4, 2]
    assert result.stderr == ""


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
def test_what_is_not_there_is_3(api: FakeApi, run: Run, command: list[str]) -> None:
    api.on("POST", "/v1/jobs", problem(404, "definition-not-found", "there is no definition named 'nobody'"))
    api.on("GET", "/v1/workers", page())
    for more in ([], ["--json"]):
        result = run(*command, *more)
        assert result.exit_code == 3
        assert result.stdout == ""
        assert result.stderr.startswith("shardmill: there is no ")


def test_other_refusals_are_1_with_their_faults(api: FakeApi, run: Run) -> None:
    fault = {"pointer": "/params/x", "code": "bad-value", "message": "is bad"}
    api.on("POST", "/v1/jobs", problem(422, "invalid-request", "the request is not valid", faults=[fault]))
    result = run("submit", "report")
    assert result.exit_code == 1
    assert result.stderr == "shardmill: the request is not valid\nshardmill:   /params/x: is bad\n"


def test_a_refused_token_is_1(api: FakeApi, run: Run) -> None:
    api.on("GET", "/v1/jobs", problem(401, "unauthorized", "the token is not valid"))
    result = run("jobs")
    assert (result.exit_code, result.stderr) == (1, "shardmill: the token is not valid\n")


def test_nobody_there_is_1() -> None:
    result = offline("jobs", "--url", "http://127.0.0.1:9", "--token", TOKEN)
    assert result.exit_code == 1
    assert result.stderr.startswith("shardmill: cannot reach Shardmill at http://127.0.0.1:9: ")


def test_not_knowing_where_is_1() -> None:
    result = offline("jobs")
    assert result.exit_code == 1
    assert "start one with `shardmill dev`" in result.stderr


def test_the_address_and_token_come_from_the_environment(api: FakeApi) -> None:
    api.on("GET", "/v1/jobs", page())
    with api.served() as url:
        result = offline("jobs", "--json", env={"SHARDMILL_URL": url, "SHARDMILL_TOKEN": TOKEN})
    assert result.exit_code == 0
    assert api.seen[0].headers["authorization"] == f"Bearer {TOKEN}"


def test_jobs_are_filtered_and_limited(api: FakeApi, run: Run) -> None:
    api.on("GET", "/v1/jobs", page(job(jid=3), job(jid=2), cursor="more"))
    result = run("jobs", "--job", "report", "--state", "failed", "--user", "bob", "--limit", "3", "--json")
    assert [each["jid"] for each in json.loads(result.stdout)] == [3, 2, 3]
    assert api.seen[0].query == {"jobName": "report", "state": "FAILED", "submitUser": "bob", "limit": "3"}


def test_jobs_for_people(api: FakeApi, run: Run) -> None:
    api.on("GET", "/v1/jobs", page(job("SUCCESS", completedTime="2026-11-16T03:19:20.123Z"), job("RUNNING")))
    lines = run("jobs").stdout.splitlines()
    assert lines[0].split() == ["JOB", "TRIGGER", "STATE", "SUBMITTED", "DURATION", "USER"]
    assert lines[1].split() == ["report", "t1", "SUCCESS", "2026-11-16T02:17:19Z", "1:02:01", "admin"]
    assert lines[2].split() == ["report", "t1", "RUNNING", "2026-11-16T02:17:19Z", "-", "admin"]


def test_job(api: FakeApi, run: Run) -> None:
    counts = {"SUCCESS": 2, "FAILED": 1}
    api.on("GET", JOB, job("RUNNING", step(done=3, counts=counts), params={"a": "x\n"}))
    text = run("job", "report", "t1").stdout
    assert "params     a=x" in text
    assert text.splitlines()[-1].split() == ["main", "RUNNING", "4", "3", "1", "-", "-"]
    found = json.loads(run("job", "report", "t1", "--json").stdout)
    assert found["steps"][0]["counts"] == counts
    assert found["createTime"] == NOW


def test_earlier_runs_are_shown(api: FakeApi, run: Run) -> None:
    api.on("GET", JOB, job("WAITING", step("old", "FAILED"), run=1))
    api.on("GET", f"{JOB}/steps/main/tasks", page(task(0)))
    api.on("GET", f"{JOB}/steps/main/tasks/0", task(0))
    assert "run 1," in run("job", "report", "t1", "--run", "1").stdout
    run("tasks", "report", "t1", "main", "--run", "1", "--limit", "1")
    run("tasks", "report", "t1", "main", "0", "--run", "1")
    assert [each.query for each in api.seen] == [{"run": "1"}, {"run": "1", "limit": "1"}, {"run": "1"}]


def test_looking_at_a_failed_job_is_fine(api: FakeApi, run: Run) -> None:
    api.on("GET", JOB, job("FAILED"))
    assert run("job", "report", "t1").exit_code == 0


def test_tasks(api: FakeApi, run: Run) -> None:
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
    assert api.seen[-1].query == {"state": "SUCCESS", "limit": "1"}


def worker(worker_id: str, name: str) -> dict[str, Any]:
    times = {"createTime": NOW, "updateTime": NOW}
    return {"id": worker_id, "name": name, "groups": ["g"], "session": 1, "heartbeatSeconds": 20, **times}


def test_tasks_show_the_names_of_workers_which_are_asked_for_once(api: FakeApi, run: Run) -> None:
    api.on("GET", "/v1/workers", page(worker("aaaaaaaa", "host-17")))
    tasks = [task(0, worker="aaaaaaaa"), task(1, worker="forgotten"), task(2, worker="aaaaaaaa")]
    api.on("GET", f"{JOB}/steps/main/tasks", page(*tasks))
    lines = run("tasks", "report", "t1", "main").stdout.splitlines()
    assert [line.split()[3] for line in lines[1:]] == ["host-17", "forgotten", "host-17"]
    assert api.asked.count("GET /v1/workers") == 1
    found = json.loads(run("tasks", "report", "t1", "main", "--json").stdout)
    assert [each["worker"] for each in found] == ["aaaaaaaa", "forgotten", "aaaaaaaa"]
    assert api.asked.count("GET /v1/workers") == 1


def test_tasks_are_shown_even_if_workers_cannot_be_read(api: FakeApi, run: Run) -> None:
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


def test_a_task_is_shown_with_its_attempts_and_last_words(api: FakeApi, run: Run) -> None:
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


def test_a_task_without_complaints_shows_the_end_of_its_output(api: FakeApi, run: Run) -> None:
    done = {"attempt": 1, "outcome": "success", "exitCode": 0, "stdout": "42\n", "stderr": "\n"}
    api.on("GET", f"{JOB}/steps/main/tasks/0", task(0, attempts=[done]))
    text = run("tasks", "report", "t1", "main", "0").stdout
    assert text.endswith("\nLast lines of stdout of attempt 1:\n  42\n")
    api.on("GET", f"{JOB}/steps/main/tasks/0", task(0, "READY", 0))
    assert run("tasks", "report", "t1", "main", "0").stdout == "report t1 main 0 READY\n  id         x_0_0\n"
    assert "GET /v1/workers" not in api.asked


def test_routes_become_commands(api: FakeApi, run: Run) -> None:
    text = "its step 'main' needs a worker group 'nope'; make it with PUT /v1/groups/nope"
    fault = {"pointer": "/jobName", "code": "unknown-group", "message": text}
    api.on("POST", "/v1/jobs", problem(422, "invalid-request", "the request is not valid", faults=[fault]))
    assert run("submit", "report").stderr.endswith("'nope'; make it with `shardmill groups add nope`\n")
    api.on("POST", "/v1/jobs", problem(404, "definition-not-found", DefinitionNotFound("report").detail))
    said = "there is no definition named 'report'; save it with `shardmill define FILE`"
    assert run("submit", "report").stderr == f"shardmill: {said}\n"
    refusal = problem(404, "schedule-not-found", ScheduleNotFound("report", "nightly").detail)
    api.on("GET", "/v1/schedules/report/nightly", refusal)
    said = "save it with `shardmill schedule save report nightly --cron …`"
    assert run("schedule", "show", "report", "nightly").stderr.endswith(f"; {said}\n")


def test_logs(api: FakeApi, run: Run) -> None:
    path = f"{JOB}/steps/main/tasks/2"
    pages = (log("één\n", 5, False), log("two", 8, True))
    api.on("GET", f"{path}/logs", *pages)
    assert run("logs", "report", "t1", "main", "2").stdout == "één\ntwo"
    api.on("GET", f"{path}/logs", *pages)
    result = run("logs", "report", "t1", "main", "2", "--stderr", "--json")
    assert json.loads(result.stdout) == {"stream": "stderr", "text": "één\ntwo"}
    assert api.seen[-1].query["stream"] == "stderr"
    api.on("GET", path, task(2, "RUNNING"), task(2, "SUCCESS"))
    api.on("GET", f"{path}/logs", *pages)
    result = run("logs", "report", "t1", "main", "2", "--follow", "--json")
    assert [json.loads(line)["text"] for line in result.stdout.splitlines()] == ["één\n", "two"]


@pytest.mark.parametrize("more", [[], ["--follow"]])
def test_the_log_of_one_attempt(api: FakeApi, run: Run, more: list[str]) -> None:
    api.on("GET", f"{JOB}/steps/main/tasks/2/logs", log("one\n", 4, False), log("two\n", 8, True))
    assert run("logs", "report", "t1", "main", "2", "--attempt", "1", *more).stdout == "one\ntwo\n"
    assert [each.query["attempt"] for each in api.seen] == ["1", "1"]


def test_an_empty_log_is_empty(api: FakeApi, run: Run) -> None:
    api.on("GET", f"{JOB}/steps/main/tasks/2/logs", log("", 0, True))
    assert run("logs", "report", "t1", "main", "2").stdout == ""
    assert json.loads(run("logs", "report", "t1", "main", "2", "--json").stdout)["text"] == ""


def test_graph_of_a_saved_definition_and_of_a_file(api: FakeApi, run: Run, tmp_path: Path) -> None:
    api.on("GET", "/v1/definitions/report", saved())
    assert run("graph", "report").stdout == "report\n  main \u00d74 noop\n"
    (tmp_path / "a.yaml").write_text("jobName: a\nsteps: [{stepName: x}, {stepName: y, dependentStep: x}]\n")
    result = offline("graph", "a.yaml", "--json", "--format", "dot")
    found = json.loads(result.stdout)
    assert found["edges"] == [{"from": "x", "to": "y"}]
    assert found["text"].startswith('digraph "a" {')
    assert offline("graph", "./nowhere").exit_code == 1
    (tmp_path / "bad.yaml").write_text("jobName: a\n")
    assert "/steps: is required" in offline("graph", "bad.yaml").stderr


COMMANDS = (
    *("dev", "demo", "validate", "define", "definitions", "submit", "jobs", "job", "tasks", "logs"),
    *("dependencies", "schedule", "schedule save", "schedule list", "schedule show", "schedule next"),
    *("schedule on", "schedule off", "schedule delete", "schedule fire", "schedule backfill"),
    *("schedule backfills", "schedule stop"),
    *("history", "suspend", "resume", "kill", "rerun", "recompute"),
    *("watch", "graph", "priority", "worker", "groups", "groups show", "groups add", "groups remove"),
    *("workers", "workers show", "workers drain", "workers suspend", "workers resume", "workers forget"),
)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_examples_in_its_help(command: str) -> None:
    words = command.split()
    assert f"\n  {words[0]} " in offline("--help").stdout
    shown = offline(*words, "--help").stdout
    assert f"Examples:\n    shardmill {command}" in shown
    assert "--json" in shown
    assert "\x1b" not in shown
    assert max(len(line) for line in shown.splitlines()) <= 100


def test_a_defect_is_told_without_a_traceback(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
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
