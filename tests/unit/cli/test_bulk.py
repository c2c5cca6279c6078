"""What is done to all Jobs that a filter chooses, against an API on loopback."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from shardmill.cli.bulk import run as run_module
from shardmill.cli.bulk.selection import dependents
from shardmill.model.definition.fields import JobGraph
from support.fakes.api import FakeApi, Reply, Run, Seen, command_line, fine, job, page, problem

GRAPH = "/v1/definitions:graph"
DAY = "2026-01-0{}T00:00:00.000Z"


def listed(name: str, jid: int, state: str, **more: Any) -> dict[str, Any]:
    return job(state, jobName=name, trigger=f"t{jid}", jid=jid, **more)


JOBS = [
    listed("report", 6, "RUNNING", dataTime=DAY.format(6)),
    listed("report", 5, "SUSPENDED", dataTime=DAY.format(5)),
    listed("report", 4, "FAILED", dataTime=DAY.format(4)),
    listed("report", 3, "SUCCESS", dataTime=DAY.format(3)),
    listed("mail", 2, "WAITING", dataTime=DAY.format(6)),
    listed("mail", 1, "QUEUED", createTime=DAY.format(5)),
    listed("audit", 7, "INIT", dataTime=DAY.format(6)),
    listed("audit", 8, "INIT", dataTime=DAY.format(5)),
    listed("audit", 9, "SUCCESS", dataTime=DAY.format(6)),
    listed("lonely", 10, "KILLED", dataTime=DAY.format(6)),
]
EDGES = [("report", "mail"), ("mail", "audit"), ("audit", "audit")]


def answer(seen: Seen) -> dict[str, Any]:
    wanted = {name: seen.query[name] for name in ("jobName", "state") if name in seen.query}
    return page(*(each for each in JOBS if wanted.items() <= each.items()))


def done(state: str) -> Any:
    """An answer to what is asked of any Job."""

    def act(seen: Seen) -> dict[str, Any]:
        _, _, _, name, rest = seen.path.split("/")
        return job(state, jobName=name, trigger=rest.partition(":")[0], run=2)

    return act


@pytest.fixture
def api() -> FakeApi:
    api = FakeApi()
    api.on("GET", "/v1/jobs", answer)
    edges = [{"parent": parent, "child": child} for parent, child in EDGES]
    api.on("GET", GRAPH, {"nodes": [], "edges": edges})
    states = {
        "suspend": "SUSPENDED",
        "resume": "RUNNING",
        "kill": "KILLED",
        "rerun": "INIT",
        "recompute": "INIT",
        "force": "SUCCESS",
        "change": "RUNNING",
        "priority": "RUNNING",
    }
    for each in JOBS:
        path = f"/v1/jobs/{each['jobName']}/{each['trigger']}"
        api.on("GET", path, each)
        api.on("DELETE", path, Reply(status=204))
        for verb, state in states.items():
            api.on("POST", f"{path}:{verb}", done(state))
    return api


@pytest.fixture
def run(api: FakeApi) -> Iterator[Run]:
    with command_line(api) as found:
        yield found


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "_is_terminal", lambda: True)


def touched(api: FakeApi) -> list[str]:
    return [each.path.removeprefix("/v1/jobs/") for each in api.seen if each.method in ("POST", "DELETE")]


@pytest.mark.parametrize(
    ("command", "chosen"),
    [
        (["kill", "--job", "report"], "t6 t5"),
        (["kill", "--job", "nobody"], ""),
        (["kill", "--state", "running"], "t6"),
        (["kill", "--state", "INIT", "--state", "QUEUED"], "t8 t7 t1"),
        (["kill", "--job", "report", "--state", "SUCCESS", "--state", "FAILED"], "t4 t3"),
        (["kill", "--since", "2026-01-06"], "t7 t6 t2"),
        (["kill", "--until", "2026-01-06"], "t8 t5 t1"),
        (["kill", "--since", "2026-01-05T00:00:00+01:00", "--until", "2026-01-05T00:00:01Z"], "t8 t5 t1"),
        (["kill", "--job", "mail", "--since", "2026-01-05", "--until", "2026-01-06"], "t1"),
        (["suspend", "--job", "report"], "t6"),
        (["resume", "--since", "2026-01-01"], "t5"),
        (["rerun", "--job", "report"], "t4"),
        (["rerun", "--job", "report", "--all"], "t3 t4"),
        (["rerun", "--job", "report", "--step", "main"], "t3 t4"),
        (["rerun", "--state", "KILLED"], "t10"),
        (["kill", "--job", "report", "--state", "RUNNING", "--downstream"], "t6 t2 t7"),
        (["kill", "report", "t6", "--downstream"], "t6 t2 t7"),
        (["kill", "report", "t3"], "t3"),
        (["rerun", "--job", "report", "--all", "--downstream"], "t3 t4"),
        (["suspend", "--state", "INIT", "--downstream"], "t8 t7"),
        (["recompute", "main", "--job", "report"], "t3 t4"),
        (["recompute", "main", "--state", "KILLED"], "t10"),
        (["recompute", "report", "t6", "main"], "t6"),
        (["force", "SUCCESS", "--job", "report"], "t6 t5"),
        (["force", "failed", "--job", "report", "--state", "FAILED"], "t4"),
        (["force", "SUCCESS", "--job", "report", "--state", "RUNNING", "--downstream"], "t6 t2 t7"),
        (["delete", "--job", "report"], "t3 t4"),
        (["delete", "--since", "2026-01-06"], "t9 t10"),
        (["delete", "--state", "RUNNING"], "t6"),
        (["delete", "report", "t3"], "t3"),
        (["change", "--job", "report", "--retries", "3"], "t6 t5"),
        (["change", "report", "t6", "--priority", "3", "--downstream"], "t6 t2 t7"),
        (["priority", "-1", "--job", "report"], "t6 t5"),
        (["priority", "--state", "INIT", "10"], "t8 t7"),
        (["priority", "report", "t6", "10", "--downstream"], "t6 t2 t7"),
    ],
)
def test_what_a_filter_chooses(api: FakeApi, run: Run, command: list[str], chosen: str) -> None:
    result = run(*command, "--dry-run", "--json")
    assert result.exit_code == 0
    assert [each["trigger"] for each in json.loads(result.stdout)] == chosen.split()
    assert touched(api) == []


def test_a_dry_run_lists_and_touches_nothing(api: FakeApi, run: Run) -> None:
    lines = fine(run("kill", "--job", "report", "--state", "RUNNING", "--dry-run")).splitlines()
    assert lines[0].split() == ["JOB", "TRIGGER", "STATE", "DATA", "TIME", "SUBMITTED", "USER"]
    assert lines[1].split()[:4] == ["report", "t6", "RUNNING", "2026-01-06T00:00:00Z"]
    assert (len(lines), api.asked) == (2, ["GET /v1/jobs"])


def test_one_definition_is_read_once_and_many_by_their_states(api: FakeApi, run: Run) -> None:
    run("kill", "--job", "report", "--dry-run")
    assert [each.query for each in api.seen] == [{"jobName": "report", "limit": "200"}]
    api.seen.clear()
    run("kill", "--job", "report", "--state", "FAILED", "--dry-run")
    assert [each.query for each in api.seen] == [{"jobName": "report", "state": "FAILED", "limit": "200"}]
    api.seen.clear()
    run("kill", "--since", "2026-01-01", "--dry-run")
    states = [each.query["state"] for each in api.seen]
    assert states == ["INIT", "WAITING", "QUEUED", "RUNNING", "SUSPENDED"]


def test_a_job_that_is_listed_twice_is_touched_once(api: FakeApi, run: Run) -> None:
    api.on("GET", "/v1/jobs", page(JOBS[0], JOBS[0]))
    assert run("kill", "--job", "report", "--yes").exit_code == 0
    assert touched(api) == ["report/t6:kill"]


def test_each_is_done_by_itself(api: FakeApi, run: Run) -> None:
    result = run("kill", "--job", "report", "--yes", "--reason", "enough")
    assert result.exit_code == 0
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["JOB", "TRIGGER", "RUN", "STATE", "RESULT"],
        ["report", "t6", "2", "KILLED", "done"],
        ["report", "t5", "2", "KILLED", "done"],
    ]
    assert result.stderr.splitlines() == [
        "shardmill: kill: 1 done, 0 refused of 2",
        "shardmill: kill: 2 done, 0 refused of 2",
    ]
    assert touched(api) == ["report/t6:kill", "report/t5:kill"]
    assert [each.document for each in api.seen if each.method == "POST"] == [{"reason": "enough"}] * 2


@pytest.mark.parametrize(
    ("command", "verb"),
    [
        (["suspend", "--job", "report"], "suspend"),
        (["resume", "--job", "report"], "resume"),
        (["rerun", "--job", "report"], "rerun"),
        (["kill", "--job", "report", "--step", "main", "--index", "3"], "kill"),
        (["recompute", "main", "--job", "report"], "recompute"),
        (["force", "SUCCESS", "--job", "report", "--step", "main", "--index", "3"], "force"),
        (["change", "--job", "report", "--step", "main", "--group", "big"], "change"),
        (["priority", "10", "--job", "report"], "priority"),
    ],
)
def test_every_verb_is_for_many(api: FakeApi, run: Run, command: list[str], verb: str) -> None:
    assert run(*command, "--yes").exit_code == 0
    assert len(touched(api)) >= 1
    assert all(path.endswith(f":{verb}") for path in touched(api))


@pytest.mark.parametrize(
    ("command", "sent"),
    [
        (["recompute", "main", "--reason", "r"], {"stepName": "main", "reason": "r"}),
        (["force", "success", "--reason", "r"], {"state": "SUCCESS", "reason": "r"}),
        (["priority", "-1"], {"priority": -1}),
        (["change", "--timeout", "60", "--reason", "r"], {"timeoutSeconds": 60, "reason": "r"}),
    ],
)
def test_each_of_many_is_sent_the_same(api: FakeApi, run: Run, command: list[str], sent: Any) -> None:
    assert run(*command, "--state", "FAILED", "--state", "SUCCESS", "--yes").exit_code == 0
    assert [each.document for each in api.seen if each.method == "POST"] == [sent] * 3


def test_many_are_deleted(api: FakeApi, run: Run) -> None:
    refused = problem(404, "job-not-found", "there is no Job of 'report' with the trigger 't4'")
    api.on("DELETE", "/v1/jobs/report/t4", refused)
    result = run("delete", "--job", "report", "--full", "--yes")
    assert result.exit_code == 1
    assert [line.split() for line in result.stdout.splitlines()[1:]] == [
        ["report", "t3", "1", "DELETED", "done"],
        ["report", "t4", "1", "FAILED", "refused"],
    ]
    assert [each.query for each in api.seen if each.method == "DELETE"] == [{"full": "true"}] * 2


def test_what_is_upstream_is_done_first(api: FakeApi, run: Run) -> None:
    assert run("suspend", "report", "t6", "--downstream", "--yes").exit_code == 0
    assert touched(api) == ["report/t6:suspend", "mail/t2:suspend", "audit/t7:suspend"]


def test_nothing_is_downstream_of_a_job_without_a_data_time(api: FakeApi, run: Run) -> None:
    result = run("kill", "mail", "t1", "--downstream", "--yes")
    assert touched(api) == ["mail/t1:kill"]
    assert "1 job without a data time: --downstream does not apply" in result.stderr
    assert f"GET {GRAPH}" not in api.asked


# Refusals


REFUSAL = problem(409, "job-ended", "the Job report/t6 has ended as SUCCESS")


def test_one_that_refuses_is_told_and_the_rest_goes_on(api: FakeApi, run: Run) -> None:
    api.on("POST", "/v1/jobs/report/t6:kill", REFUSAL)
    result = run("kill", "--job", "report", "--yes")
    assert result.exit_code == 1
    assert [line.split() for line in result.stdout.splitlines()[1:]] == [
        ["report", "t6", "1", "RUNNING", "refused"],
        ["report", "t5", "2", "KILLED", "done"],
    ]
    assert result.stderr.splitlines() == [
        "shardmill: report/t6 refused: the Job report/t6 has ended as SUCCESS",
        "shardmill: kill: 0 done, 1 refused of 2",
        "shardmill: kill: 1 done, 1 refused of 2",
    ]


def test_refusals_in_json(api: FakeApi, run: Run) -> None:
    api.on("POST", "/v1/jobs/report/t6:kill", REFUSAL)
    result = run("kill", "--job", "report", "--yes", "--json")
    assert result.exit_code == 1
    first, second = json.loads(result.stdout)
    assert first == {
        "jobName": "report",
        "trigger": "t6",
        "run": 1,
        "state": "RUNNING",
        "done": False,
        "code": "job-ended",
        "detail": "the Job report/t6 has ended as SUCCESS",
    }
    assert (second["done"], second["code"], second["state"]) == (True, None, "KILLED")


@pytest.mark.parametrize("status", [404, 422, 429, 503])
def test_what_concerns_one_job_only_is_a_refusal(api: FakeApi, run: Run, status: int) -> None:
    api.on("POST", "/v1/jobs/report/t3:rerun", problem(status, "some-code", "not this one"))
    result = run("rerun", "--job", "report", "--all", "--yes")
    assert (result.exit_code, touched(api)) == (1, ["report/t3:rerun", "report/t4:rerun"])
    assert "report/t3 refused: not this one" in result.stderr


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_what_concerns_all_ends_it_and_says_how_far_it_came(api: FakeApi, run: Run, more: list[str]) -> None:
    api.on("POST", "/v1/jobs/report/t5:kill", Reply({"message": "Forbidden"}, 403))
    result = run("kill", "--job", "report", "--state", "RUNNING", "--state", "SUSPENDED", "--yes", *more)
    assert result.exit_code == 1
    if more:
        assert [each["trigger"] for each in json.loads(result.stdout)] == ["t6"]
    assert "stopped early: kill not attempted for 1 job" in result.stderr
    assert result.stderr.splitlines()[-1].endswith("was answered 403: Forbidden")


def test_nobody_chosen_is_fine(api: FakeApi, run: Run) -> None:
    result = run("kill", "--job", "nobody", "--yes", "--json")
    assert (result.exit_code, json.loads(result.stdout)) == (0, [])
    assert result.stderr == "shardmill: no jobs to kill match the selection\n"


# Asking


@pytest.mark.usefixtures("terminal")
def test_a_terminal_is_asked(api: FakeApi, run: Run) -> None:
    result = run("kill", "--since", "2026-01-06", input="y\n")
    assert result.exit_code == 0
    assert "kill 3 jobs (1 of audit, 1 of report, 1 of mail)? [y/N] " in result.stderr
    assert len(touched(api)) == 3


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("said", ["n\n", "\n", "", "yesterday\n"])
def test_only_a_yes_is_a_yes(api: FakeApi, run: Run, said: str) -> None:
    result = run("kill", "--job", "report", "--json", input=said)
    assert (result.exit_code, result.stdout, touched(api)) == (1, "", [])
    assert result.stderr == "kill 2 jobs (2 of report)? [y/N] shardmill: cancelled; no job was changed\n"


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("more", [["--yes"], ["-y"], ["--dry-run"], ["--state", "DELETED"]])
def test_nobody_is_asked_without_need(run: Run, more: list[str]) -> None:
    assert "[y/N]" not in run("kill", "--job", "report", *more).output


@pytest.mark.usefixtures("terminal")
def test_very_many_definitions_are_not_all_named(api: FakeApi, run: Run) -> None:
    api.on("GET", "/v1/jobs", lambda seen: page(*(listed(f"j{n}", n, seen.query["state"]) for n in range(9))))
    result = run("kill", "--state", "RUNNING", input="n\n")
    assert "kill 9 jobs (1 of j8, 1 of j7, 1 of j6, 1 of j5, 1 of j4, …)?" in result.stderr


# The graph


@pytest.mark.parametrize(
    ("edges", "name", "found"),
    [
        ([], "a", ""),
        ([("a", "b"), ("b", "c"), ("x", "y")], "a", "b c"),
        ([("a", "a"), ("a", "b")], "a", "b"),
        ([("a", "b"), ("b", "c"), ("c", "a")], "a", "b c"),
        ([("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")], "a", "b c d"),
    ],
)
def test_what_depends_on_a_definition(edges: list[tuple[str, str]], name: str, found: str) -> None:
    pairs = [{"parent": parent, "child": child} for parent, child in edges]
    graph = JobGraph.model_validate({"nodes": [], "edges": pairs})
    assert dependents(graph, name) == found.split()
