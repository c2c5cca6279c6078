"""dlq and its subcommands."""

import json
from typing import Any

import pytest

from support.fakes.api import NOW, FakeApi, Reply, Run, output_of, page, problem


def letter(letter_id: str, source: str = "submit", **more: Any) -> dict[str, Any]:
    return {"id": letter_id, "source": source, "time": NOW, "reason": "no\x1bt found", "size": 9, **more}


LETTERS = (letter("3-c", "task"), letter("2-b", "notification"), letter("1-a"))


@pytest.fixture
def api() -> FakeApi:
    api = FakeApi()
    api.on("GET", "/v1/dead-letters", page(*LETTERS))
    api.on("GET", "/v1/dead-letters/1-a", letter("1-a", payload={"detail": {"jobName": "orders"}}))
    for each in LETTERS:
        api.on("POST", f"/v1/dead-letters/{each['id']}:redrive", each)
        api.on("DELETE", f"/v1/dead-letters/{each['id']}", Reply(status=204))
    return api


def test_dead_letters_are_listed(api: FakeApi, run: Run) -> None:
    headings, *rows = output_of(run("dlq", "list")).splitlines()
    assert headings.split() == ["ID", "SOURCE", "TIME", "REASON"]
    assert [row.split()[:2] for row in rows] == [[each["id"], each["source"]] for each in LETTERS]
    assert "\x1b" not in "".join(rows)


def test_list_filters_by_source(api: FakeApi, run: Run) -> None:
    [found] = json.loads(output_of(run("dlq", "list", "--source", "submit", "--json")))
    assert found["id"] == "1-a"


def test_a_dead_letter_is_shown_with_its_payload(api: FakeApi, run: Run) -> None:
    shown = output_of(run("dlq", "show", "1-a"))
    assert shown.startswith("dead letter 1-a\n  source     submit\n")
    assert '"jobName": "orders"' in shown
    assert json.loads(output_of(run("dlq", "show", "1-a", "--json")))["payload"] == {
        "detail": {"jobName": "orders"}
    }


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["redrive", "1-a", "2-b"], ["1-a redriven", "2-b redriven"]),
        (["redrive", "--all"], ["2-b redriven", "1-a redriven"]),
        (["redrive", "--all", "--source", "submit"], ["1-a redriven"]),
        (["redrive", "--all", "--source", "task"], []),
        (["delete", "3-c"], ["3-c deleted"]),
        (["delete", "--all"], ["3-c deleted", "2-b deleted", "1-a deleted"]),
        (["delete", "--all", "--source", "task"], ["3-c deleted"]),
    ],
)
def test_redrive_and_delete_handle_the_chosen_letters(
    api: FakeApi, run: Run, arguments: list[str], expected: list[str]
) -> None:
    lines = output_of(run("dlq", *arguments)).splitlines()
    assert lines == [f"dead letter {each}" for each in expected]
    done = [f"{request.method} {request.path}" for request in api.requests if request.method != "GET"]
    assert len(done) == len(expected)


def test_redrive_prints_json(api: FakeApi, run: Run) -> None:
    assert json.loads(output_of(run("dlq", "redrive", "1-a", "--json"))) == {"id": "1-a", "redriven": True}


@pytest.mark.parametrize("verb", ["redrive", "delete"])
@pytest.mark.parametrize("arguments", [[], ["1-a", "--all"], ["1-a", "--source", "task"]])
def test_either_ids_or_all_are_required(api: FakeApi, run: Run, verb: str, arguments: list[str]) -> None:
    refused = run("dlq", verb, *arguments)
    assert (refused.exit_code, api.requests) == (2, [])


@pytest.mark.parametrize("verb", ["redrive", "delete"])
def test_a_letter_that_was_handled_concurrently_does_not_stop_the_others(
    api: FakeApi, run: Run, verb: str
) -> None:
    gone = problem(404, "dead-letter-not-found")
    for method, path in (("POST", "/v1/dead-letters/2-b:redrive"), ("DELETE", "/v1/dead-letters/2-b")):
        api.on(method, path, gone)
    assert "dead letter 1-a" in output_of(run("dlq", verb, "--all"))
    assert run("dlq", verb, "2-b").exit_code == 3


def test_a_letter_that_does_not_exist_exits_3(api: FakeApi, run: Run) -> None:
    api.on("GET", "/v1/dead-letters/..%2Fx", problem(404, "dead-letter-not-found", "there is none"))
    assert run("dlq", "show", "../x").exit_code == 3
