"""What is done to one Job, and its history, against an API on loopback."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from shardmill.cli.bulk.selection import Selection
from shardmill.cli.parsing import MAX_INDEXES, parse_indexes
from shardmill.model.states import JobState
from support.fakes.api import (
    FakeApi,
    Reply,
    Run,
    command_line,
    fine,
    job,
    page,
    problem,
    step,
    task,
    transition,
)

JOB = "/v1/jobs/report/t1"
WHO = ["report", "t1"]


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@pytest.fixture
def run(api: FakeApi) -> Iterator[Run]:
    with command_line(api) as found:
        yield found


@pytest.mark.parametrize(
    ("command", "state", "told", "sent"),
    [
        (["suspend", *WHO], "SUSPENDED", "report t1 SUSPENDED\n", {"letFinish": False}),
        (
            ["suspend", *WHO, "--let-finish", "--reason", "wrong data"],
            "SUSPENDED",
            "report t1 SUSPENDED\n",
            {"letFinish": True, "reason": "wrong data"},
        ),
        (["resume", *WHO, "--reason", "mended"], "QUEUED", "report t1 QUEUED\n", {"reason": "mended"}),
        (["kill", *WHO, "--yes"], "KILLED", "report t1 KILLED\n", {}),
        (
            ["kill", *WHO, "--step", "main"],
            "RUNNING",
            "report t1 RUNNING, step main KILLED\n",
            {"stepName": "main"},
        ),
        (
            ["kill", *WHO, "--step", "main", "--index", "0", "--reason", "r"],
            "RUNNING",
            "report t1 RUNNING, step main KILLED\n",
            {"stepName": "main", "index": 0, "reason": "r"},
        ),
        (["kill", *WHO, "--step", ""], "RUNNING", "report t1 RUNNING\n", {"stepName": ""}),
        (["rerun", *WHO], "INIT", "report t1 INIT run 2\n", {}),
        (["rerun", *WHO, "--step", ""], "INIT", "report t1 INIT run 2\n", {"steps": [""]}),
        (["rerun", *WHO, "--all"], "INIT", "report t1 INIT run 2\n", {"scope": "all"}),
        (
            ["rerun", *WHO, "--step", "a", "--step", "b", "--reason", "r"],
            "INIT",
            "report t1 INIT run 2\n",
            {"steps": ["a", "b"], "reason": "r"},
        ),
        (
            ["rerun", *WHO, "--step", "a", "--shards", "3,7-9"],
            "INIT",
            "report t1 INIT run 2\n",
            {"steps": ["a"], "shards": [3, 7, 8, 9]},
        ),
        (
            ["recompute", *WHO, "main", "--reason", "r"],
            "INIT",
            "report t1 INIT run 2\n",
            {"stepName": "main", "reason": "r"},
        ),
        (
            ["priority", *WHO, "-1", "--reason", "r"],
            "RUNNING",
            "report t1 RUNNING priority 1\n",
            {"priority": -1, "reason": "r"},
        ),
        (
            ["change", *WHO, "--priority", "-3", "--retries", "0"],
            "RUNNING",
            "report t1 RUNNING, all steps: priority -3, retries 0\n",
            {"priority": -3, "failedRetries": 0},
        ),
        (
            ["change", *WHO, "--group", "a", "--group", "b", "--step", "main", "--reason", "r"],
            "QUEUED",
            "report t1 QUEUED, step main: groups a,b\n",
            {"stepName": "main", "workerGroups": ["a", "b"], "reason": "r"},
        ),
        (
            ["change", *WHO, "--max-tasks", "7", "--timeout", "600"],
            "WAITING",
            "report t1 WAITING, all steps: max tasks 7, timeout 600\n",
            {"maxTaskCount": 7, "timeoutSeconds": 600},
        ),
    ],
)
def test_what_is_asked_of_one_job(
    api: FakeApi, run: Run, command: list[str], state: str, told: str, sent: Any
) -> None:
    path = f"{JOB}:{command[0]}"
    api.on("POST", path, job(state, step(state="KILLED"), run=2, priority=1))
    assert fine(run(*command)) == told
    assert json.loads(fine(run(*command, "--json")))["state"] == state
    assert api.asked == [f"POST {path}"] * 2
    assert [each.document for each in api.seen] == [sent] * 2


@pytest.mark.parametrize(
    ("verb", "more"),
    [
        *((verb, []) for verb in ("suspend", "resume", "kill", "rerun")),
        ("recompute", ["main"]),
        ("force", ["FAILED"]),
        ("priority", ["3"]),
        ("change", ["--retries", "3"]),
    ],
)
def test_a_refusal_of_one_job_is_1(api: FakeApi, run: Run, verb: str, more: list[str]) -> None:
    api.on("POST", f"{JOB}:{verb}", problem(409, "job-ended", "the Job report/t1 has ended as SUCCESS"))
    refused = run(verb, *WHO, *more)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr == "shardmill: the Job report/t1 has ended as SUCCESS\n"


FILTERS = "give either JOB and TRIGGER, or at least one of --job"


def with_word(metavar: str) -> str:
    return f"give either JOB, TRIGGER and {metavar}, or {metavar} and at least one of --job"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["kill"], FILTERS),
        (["kill", "--yes"], FILTERS),
        (["kill", "report"], FILTERS),
        (["kill", *WHO, "--job", "report"], FILTERS),
        (["kill", "report", "--state", "RUNNING"], FILTERS),
        (["kill", "bad/name", "t1"], "cannot be a jobName"),
        (["kill", "--job", "", "--yes"], "cannot be a jobName"),
        (["kill", "--job", "a/b", "--dry-run"], "cannot be a jobName"),
        (["kill", *WHO, "--index", "0"], "requires --step"),
        (["kill", *WHO, "--step", "", "--downstream", "--yes"], "cannot be combined with a step"),
        (["kill", *WHO, "--step", "main", "--index", "-1"], "--index"),
        (["kill", *WHO, "--step", "main", "--downstream", "--yes"], "cannot be combined with a step"),
        (["kill", *WHO, "--downstream"], "cannot ask for confirmation without a terminal"),
        (["kill", "--job", "report"], "cannot ask for confirmation without a terminal"),
        (["kill", "--state", "NONSENSE", "--yes"], "NONSENSE"),
        (["kill", "--since", "yesterday", "--yes"], "'yesterday' must be a date"),
        (["kill", "--since", "0001-01-01T00:00:00+14:00", "--yes"], "must be a date"),
        (["kill", "--since", "2026-01-02", "--until", "2026-01-02", "--yes"], "must be after --since"),
        (["rerun", *WHO, "--timeout", "3"], "requires --wait"),
        (["rerun", *WHO, "--all", "--step", "a"], "cannot be combined with --step"),
        (["rerun", *WHO, "--shards", "1"], "requires exactly one --step"),
        (["rerun", *WHO, "--step", "a", "--step", "b", "--shards", "1"], "requires exactly one --step"),
        (["rerun", *WHO, "--step", "a", "--shards", "x"], "such as 3,7-9"),
        (["rerun", *WHO, "--step", "a", "--shards", ""], "such as 3,7-9"),
        (["rerun", *WHO, "--step", "a", "--shards", "9-7"], "ends before it starts"),
        (["rerun", *WHO, "--step", "a", "--shards", "0-999999999"], "more than 10,000"),
        (["rerun", "--job", "report", "--wait", "--yes"], "works for a single job only"),
        (["rerun", *WHO, "--downstream", "--wait", "--yes"], "works for a single job only"),
        (["recompute"], with_word("STEP")),
        (["recompute", *WHO], with_word("STEP")),
        (["recompute", "--job", "report", "--yes"], with_word("STEP")),
        (["recompute", *WHO, "main", "--job", "report", "--yes"], with_word("STEP")),
        (["recompute", *WHO, "--job", "report", "--yes"], with_word("STEP")),
        (["recompute", "main", "--job", "report"], "cannot ask for confirmation without a terminal"),
        (["recompute", "main", "--job", "report", "--wait", "--yes"], "works for a single job only"),
        (["recompute", *WHO, "main", "--downstream", "--yes"], "cannot be combined with a step"),
        (["recompute", *WHO, "main", "--timeout", "3"], "requires --wait"),
        (["force", "SUCCESS"], with_word("SUCCESS|FAILED")),
        (["force", *WHO], with_word("SUCCESS|FAILED")),
        (["force", *WHO, "KILLED"], "'KILLED' must be one of SUCCESS, FAILED"),
        (["force", "KILLED", "--job", "report", "--yes"], "'KILLED' must be one of SUCCESS, FAILED"),
        (["force", *WHO, "SUCCESS", "--step", "main", "--downstream"], "cannot be combined with a step"),
        (["force", *WHO, "SUCCESS", "--index", "0"], "requires --step"),
        (["force", "SUCCESS", "--state", "FAILED"], "cannot ask for confirmation without a terminal"),
        (["delete"], FILTERS),
        (["delete", "--job", "report"], "cannot ask for confirmation without a terminal"),
        (["priority", *WHO], with_word("N")),
        (["priority", *WHO, "high"], "'high' must be an integer"),
        (["priority", "high", "--job", "report", "--yes"], "'high' must be an integer"),
        (["priority", "5", "--job", "report", "--yes", "--dryrun"], with_word("N")),
        (["priority", "--job", "report", "--yes", "--dryrun"], "'--dryrun' must be an integer"),
        (["change"], "nothing to change: give at least one of --priority, --group"),
        (["change", *WHO, "--step", "main", "--reason", "r"], "nothing to change"),
        (["change", "--retries", "3"], FILTERS),
        (["change", *WHO, "--retries", "-1"], "--retries"),
        (["change", *WHO, "--max-tasks", "0"], "--max-tasks"),
        (["change", *WHO, "--timeout", "0"], "--timeout"),
        (["change", *WHO, "--priority", "high"], "--priority"),
        (["change", "--job", "report", "--retries", "3"], "cannot ask for confirmation without a terminal"),
        (["change", *WHO, "--step", "a", "--retries", "3", "--downstream"], "cannot be combined with a step"),
    ],
)
def test_nonsense_is_2_and_asks_nobody(api: FakeApi, run: Run, command: list[str], words: str) -> None:
    refused = run(*command)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert words in " ".join(refused.stderr.split())
    assert api.seen == []


# Running again, and waiting for it


@pytest.mark.parametrize("command", [["rerun", *WHO], ["recompute", *WHO, "main"]])
def test_waiting_for_a_new_run(api: FakeApi, run: Run, command: list[str]) -> None:
    api.on("POST", f"{JOB}:{command[0]}", job("INIT", run=2))
    looks = job("RUNNING", step(), run=2), job("SUCCESS", step(state="SUCCESS", done=4), run=2)
    api.on("GET", JOB, *looks)
    result = run(*command, "--wait")
    assert result.exit_code == 0
    assert result.stdout.startswith("report t1 SUCCESS\n")
    assert result.stderr.splitlines()[0] == "shardmill: started run 2 of report/t1"
    assert "step main RUNNING (0 of 4 tasks)" in result.stderr
    api.on("GET", JOB, *looks)
    assert json.loads(run(*command, "--wait", "--json").stdout)["state"] == "SUCCESS"


def test_a_new_run_that_fails_is_4_and_says_why(api: FakeApi, run: Run) -> None:
    api.on("POST", f"{JOB}:rerun", job("INIT", run=2))
    api.on("GET", JOB, job("FAILED", step(state="FAILED"), run=2))
    api.on("GET", f"{JOB}/steps/main/tasks", page(task(5, "FAILED")))
    api.on("GET", f"{JOB}/steps/main/tasks/5", task(5, "FAILED", reason="exit code 3"))
    for more in ([], ["--json"]):
        result = run("rerun", *WHO, "--wait", *more)
        assert result.exit_code == 4
        assert "task 5 of step main failed: exit code 3" in result.stderr


def test_waiting_too_long_for_a_new_run_is_5(api: FakeApi, run: Run) -> None:
    api.on("POST", f"{JOB}:rerun", job("INIT", run=2))
    api.on("GET", JOB, job("RUNNING", run=2))
    assert run("rerun", *WHO, "--wait", "--timeout", "0").exit_code == 5


WORDS = st.lists(st.text("ab1", min_size=1, max_size=3), max_size=3)


@given(WORDS, st.none() | st.just("report"), st.none() | st.just([JobState.FAILED]))
def test_a_last_word_is_behind_both_names_or_alone_beside_a_filter(
    words: list[str], of_job: str | None, states: list[JobState] | None
) -> None:
    job_name, trigger, last = [*words, None, None, None][:3]
    selection = Selection(job_name, trigger, of_job, states)
    if len(words) != (1 if of_job or states else 3):
        with pytest.raises(typer.BadParameter, match="give either JOB, TRIGGER and STEP, or STEP and"):
            selection.take_argument(last, "STEP", str)
        return
    rest, value = selection.take_argument(last, "STEP", str)
    assert value == words[-1]
    assert [each for each in (rest.job_name, rest.trigger) if each] == words[:-1]
    rest.check()


@given(st.lists(st.integers(0, 10**9 - 1), min_size=1, max_size=20))
def test_indexes_come_out_as_they_went_in(numbers: list[int]) -> None:
    assert parse_indexes(",".join(map(str, numbers))) == sorted(set(numbers))


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 50)), min_size=1, max_size=10))
def test_ranges_are_what_is_in_them(ranges: list[tuple[int, int]]) -> None:
    text = ", ".join(f"{first}-{first + more}" for first, more in ranges)
    wanted = {number for first, more in ranges for number in range(first, first + more + 1)}
    assert parse_indexes(text) == sorted(wanted)


@given(st.text(max_size=12))
def test_any_text_is_indexes_or_refused(text: str) -> None:
    try:
        found = parse_indexes(text)
    except typer.BadParameter:
        return
    assert 0 < len(found) <= MAX_INDEXES
    assert found == sorted(set(found))


def test_as_many_indexes_as_the_api_takes() -> None:
    assert len(parse_indexes(f"1-{MAX_INDEXES}")) == MAX_INDEXES
    with pytest.raises(typer.BadParameter, match="more than"):
        parse_indexes(f"0-{MAX_INDEXES}")
    with pytest.raises(typer.BadParameter, match="more than"):
        parse_indexes(f"1-{MAX_INDEXES},0")


# History


def test_the_history_is_a_table(api: FakeApi, run: Run) -> None:
    api.on(
        "GET",
        f"{JOB}/history",
        page(
            transition("INIT", actor="admin"),
            transition("FAILED", "main", reason="2 tasks\nfailed"),
            transition("INIT", run=2, actor="bob", reason="fixed"),
        ),
    )
    lines = fine(run("history", *WHO)).splitlines()
    assert [[cell.strip() for cell in line.split("  ") if cell] for line in lines] == [
        ["TIME", "RUN", "STEP", "STATE", "USER", "REASON"],
        ["2026-11-16T02:17:19Z", "1", "-", "INIT", "admin", "-"],
        ["2026-11-16T02:17:19Z", "1", "main", "FAILED", "shardmill", "2 tasks failed"],
        ["2026-11-16T02:17:19Z", "2", "-", "INIT", "bob", "fixed"],
    ]
    found = json.loads(fine(run("history", *WHO, "--json")))
    assert [(each["stepName"], each["run"]) for each in found] == [(None, 1), ("main", 1), (None, 2)]


def test_a_job_is_forced_to_an_end(api: FakeApi, run: Run) -> None:
    api.on("POST", f"{JOB}:force", job(state="SUCCESS"))
    assert fine(run("force", *WHO, "success", "--reason", "seen")) == "report t1 SUCCESS\n"
    assert api.seen[-1].document == {"state": "SUCCESS", "reason": "seen"}
    fine(run("force", *WHO, "FAILED", "--step", "main", "--index", "3"))
    assert api.seen[-1].document == {"state": "FAILED", "stepName": "main", "index": 3}
    assert run("force", *WHO, "KILLED").exit_code == 2
    assert run("force", *WHO, "SUCCESS", "--index", "3").exit_code == 2


def test_a_job_is_deleted(api: FakeApi, run: Run) -> None:
    api.on("DELETE", JOB, Reply(status=204))
    for more in ([], ["--full"]):
        done = run("delete", *WHO, *more)
        assert (done.exit_code, done.stdout, done.stderr) == (0, "", "shardmill: report t1 deleted\n")
    told = json.loads(fine(run("delete", *WHO, "--json")))
    assert told == {"jobName": "report", "trigger": "t1", "deleted": True}
    assert [each.query for each in api.seen] == [{}, {"full": "true"}, {}]


def test_why_a_job_is_not_finished(api: FakeApi, run: Run) -> None:
    told = {"jobName": "report", "trigger": "t1", "state": "RUNNING", "sentences": ["One.", "Two."]}
    api.on("GET", f"{JOB}:explain", told)
    assert fine(run("why", *WHO)) == "One.\nTwo.\n"
    assert json.loads(fine(run("why", *WHO, "--json")))["sentences"] == ["One.", "Two."]
