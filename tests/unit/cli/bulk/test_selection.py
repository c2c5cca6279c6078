"""Jobs selected by a filter, and those downstream of them."""

import json

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from shardmill.cli.bulk.selection import Selection, dependents
from shardmill.model.definition.answers import JobGraph
from shardmill.model.states import JobState
from support.fakes.api import (
    FakeApi,
    Run,
    job,
    page,
)

ARGUMENTS = st.lists(st.text("ab1", min_size=1, max_size=3), max_size=3)


@pytest.mark.parametrize(
    ("command", "chosen"),
    [
        (["kill", "--job", "report"], "t6 t5"),
        (["kill", "--job", "missing"], ""),
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
def test_filter_selects_jobs(api: FakeApi, run: Run, command: list[str], chosen: str) -> None:
    result = run(*command, "--dry-run", "--json")
    assert result.exit_code == 0
    assert [each["trigger"] for each in json.loads(result.stdout)] == chosen.split()
    assert api.changed_jobs == []


def test_one_definition_is_queried_once_and_many_by_state(api: FakeApi, run: Run) -> None:
    run("kill", "--job", "report", "--dry-run")
    assert [each.query for each in api.requests[:-1]] == [{"jobName": "report", "limit": "200"}]
    api.requests.clear()
    run("kill", "--job", "report", "--state", "FAILED", "--dry-run")
    query = {"jobName": "report", "state": "FAILED", "limit": "200"}
    assert [each.query for each in api.requests[:-1]] == [query]
    api.requests.clear()
    run("kill", "--since", "2026-01-01", "--dry-run")
    states = [each.query["state"] for each in api.requests[:-1]]
    assert states == ["INIT", "WAITING", "QUEUED", "RUNNING", "SUSPENDED"]


def test_job_listed_twice_is_selected_once(api: FakeApi, run: Run) -> None:
    api.on("GET", "/v1/jobs", page(*[job("RUNNING", trigger="t6", jid=6)] * 2))
    assert run("kill", "--job", "report", "--yes").exit_code == 0
    assert api.changed_jobs == ["report/t6:kill"]


def test_upstream_jobs_come_first(api: FakeApi, run: Run) -> None:
    assert run("suspend", "report", "t6", "--downstream", "--yes").exit_code == 0
    assert api.changed_jobs == ["report/t6:suspend", "mail/t2:suspend", "audit/t7:suspend"]


def test_nothing_is_downstream_of_a_job_without_a_data_time(api: FakeApi, run: Run) -> None:
    result = run("kill", "mail", "t1", "--downstream", "--yes")
    assert api.changed_jobs == ["mail/t1:kill"]
    assert "1 job without a data time: --downstream does not apply" in result.stderr
    assert "GET /v1/definitions:graph" not in api.request_lines


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
def test_dependents_of_a_definition_are_found(edges: list[tuple[str, str]], name: str, found: str) -> None:
    pairs = [{"parent": parent, "child": child} for parent, child in edges]
    graph = JobGraph.model_validate({"nodes": [], "edges": pairs})
    assert dependents(graph, name) == found.split()


@given(ARGUMENTS, st.none() | st.just("report"), st.none() | st.just([JobState.FAILED]))
def test_last_argument_follows_both_names_or_stands_alone_with_a_filter(
    arguments: list[str], of_job: str | None, states: list[JobState] | None
) -> None:
    job_name, trigger, last = [*arguments, None, None, None][:3]
    selection = Selection(job_name, trigger, of_job, states)
    if len(arguments) != (1 if of_job or states else 3):
        with pytest.raises(typer.BadParameter, match="give either JOB, TRIGGER and STEP, or STEP and"):
            selection.take_argument(last, "STEP", str)
        return
    rest, value = selection.take_argument(last, "STEP", str)
    assert value == arguments[-1]
    assert [each for each in (rest.job_name, rest.trigger) if each] == arguments[:-1]
    rest.check()
