"""definitions and groups suspended and resumed, against an API on loopback."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmill.cli.hints import with_commands
from shardmill.engine.errors import DefinitionSuspended
from shardmill.model.actor import Actor, suspended_by
from support.fakes.api import NOW, FakeApi, Reply, Run, command_line, fine, listed, page, problem, saved

GROUP = {"id": "g", "name": "g", "kind": "pull", "leaseSeconds": 60, "createTime": NOW, "updateTime": NOW}
WHY = "suspended by bob: a di\x1bsk"
SHOWN = "suspended by bob: a di sk"


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@pytest.fixture
def run(api: FakeApi) -> Iterator[Run]:
    with command_line(api) as found:
        yield found


@pytest.mark.parametrize(
    ("options", "sent"), [([], {}), (["--reason", "a disk"], {"reason": "a disk"}), (["--reason", ""], {})]
)
@pytest.mark.parametrize(
    ("command", "answer", "told"),
    [
        (["definitions", "suspend", "report"], saved(suspended=WHY), f"report version 3 {SHOWN}\n"),
        (["definitions", "resume", "report"], saved(), "report version 3 resumed\n"),
        (
            ["groups", "suspend", "g"],
            {**GROUP, "suspended": WHY, "types": ["hive"]},
            f"group g: pull, lease 60 s, types hive, {SHOWN}\n",
        ),
        (["groups", "resume", "g"], GROUP, "group g: pull, lease 60 s\n"),
    ],
)
def test_one_is_suspended_and_resumed(
    api: FakeApi,
    run: Run,
    command: list[str],
    answer: dict[str, Any],
    told: str,
    options: list[str],
    sent: Any,
) -> None:
    kind, verb, name = command
    path = f"/v1/{kind}/{name}:{verb}"
    api.on("POST", path, answer)
    assert fine(run(*command, *options)) == told
    assert json.loads(fine(run(kind, "--json", verb, name, *options)))["suspended"] == answer.get("suspended")
    assert api.asked == [f"POST {path}"] * 2
    assert [each.document for each in api.seen] == [sent] * 2


@pytest.mark.parametrize(
    ("verb", "done", "held"), [("suspend", "suspended", True), ("resume", "resumed", False)]
)
def test_everything_is_suspended_and_resumed(
    api: FakeApi, run: Run, verb: str, done: str, held: bool
) -> None:
    api.on("POST", f"/v1/groups:{verb}", Reply(status=204))
    assert fine(run("groups", verb, "--all", "--reason", "fire drill")) == f"all groups {done}\n"
    assert api.seen[-1].document == {"reason": "fire drill"}
    assert json.loads(fine(run("groups", verb, "--all", "--json"))) == {"all": True, "suspended": held}


@pytest.mark.parametrize("verb", ["suspend", "resume"])
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give either the NAME of a group or --all"),
        (["g", "--all"], "give either the NAME of a group or --all"),
        (["a/b"], "cannot be a name"),
        ([""], "cannot be a name"),
    ],
)
def test_a_group_or_all_of_them(api: FakeApi, run: Run, verb: str, arguments: list[str], words: str) -> None:
    refused = run("groups", verb, *arguments)
    assert (refused.exit_code, refused.stdout, api.seen) == (2, "", [])
    assert words in " ".join(refused.stderr.split())


def test_what_is_not_there_is_3_and_says_how_to_make_it(api: FakeApi, run: Run) -> None:
    missing = "there is no worker group 'g'; make it with PUT /v1/groups/g"
    api.on("POST", "/v1/groups/g:suspend", problem(404, "group-not-found", missing))
    missing = "there is no definition named 'r'; save it with PUT /v1/definitions/r"
    api.on("POST", "/v1/definitions/r:suspend", problem(404, "definition-not-found", missing))
    for command, words in (
        (["groups", "suspend", "g"], "make it with `shardmill groups add g`"),
        (["definitions", "suspend", "r"], "save it with `shardmill define FILE`"),
    ):
        refused = run(*command)
        assert (refused.exit_code, refused.stdout) == (3, "")
        assert words in refused.stderr


# Lists


def test_lists_mark_what_is_suspended(api: FakeApi, run: Run) -> None:
    plain, held = listed("a", description="nightly"), listed("b", description="hourly", suspended=WHY)
    api.on("GET", "/v1/definitions", page(plain, held, listed("c", suspended=WHY), listed("d")))
    descriptions = [line.partition("  admin  ")[2] for line in fine(run("definitions")).splitlines()[1:]]
    assert descriptions == ["nightly", f"({SHOWN}) hourly", f"({SHOWN})", "-"]
    assert [each["suspended"] for each in json.loads(fine(run("definitions", "--json")))] == [
        None,
        WHY,
        WHY,
        None,
    ]
    api.on("GET", "/v1/groups", page(GROUP, {**GROUP, "suspended": WHY}))
    heading, free, resting = fine(run("groups")).splitlines()
    assert [line.split()[-1] for line in (heading, free)] == ["SUSPENDED", "-"]
    assert resting.endswith("  by bob: a di sk")


def test_a_new_version_of_a_suspended_definition_says_so(
    api: FakeApi, run: Run, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "report.yaml").write_text("jobName: report\nsteps: [{stepName: main}]\n")
    api.on("POST", "/v1/definitions:validate", {"valid": True, "faults": []})
    api.on("PUT", "/v1/definitions/report", saved(suspended=WHY))
    assert fine(run("define", "report.yaml")) == f"report version 3 saved: 1 step, 4 tasks; {SHOWN}\n"


def test_a_suspended_group_is_shown_as_such(api: FakeApi, run: Run) -> None:
    api.on("GET", "/v1/groups/g", {**GROUP, "suspended": WHY})
    api.on("GET", "/v1/workers", page())
    assert fine(run("groups", "show", "g")).splitlines()[0] == f"group g: pull, lease 60 s, {SHOWN}"


# Words


@given(st.from_regex(r"[_a-zA-Z][_a-zA-Z0-9-]{0,63}", fullmatch=True), st.text(max_size=40))
def test_a_refused_start_says_how_to_resume(name: str, reason: str) -> None:
    refused = DefinitionSuspended(name, suspended_by(Actor("bob"), reason))
    told = with_commands(refused.code, refused.detail)
    assert told.endswith(f"until `shardmill definitions resume {name}`")
    assert suspended_by(Actor("bob"), reason) in told


def test_a_refused_start_is_told_to_people(api: FakeApi, run: Run) -> None:
    refused = DefinitionSuspended("report", "suspended by bob: a disk")
    api.on("POST", "/v1/jobs", problem(409, refused.code, refused.detail))
    result = run("submit", "report", "--trigger", "t1")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "shardmill: the definition 'report' was suspended by bob: a disk; "
        "no new Jobs of it start until `shardmill definitions resume report`\n"
    )


@pytest.mark.parametrize(
    "command",
    [
        *("definitions", "definitions suspend", "definitions resume", "groups suspend", "groups resume"),
        *("change", "priority", "recompute", "force", "delete", "why"),
    ],
)
def test_the_help_has_examples(run: Run, command: str) -> None:
    shown = fine(run(*command.split(), "--help"))
    assert f"Examples:\n    shardmill {command}" in shown
    assert "--json" in shown
    assert max(len(line) for line in shown.splitlines()) <= 100
