"""Validation of definitions, by example."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from shardmill.model.definition.fields import JobDefine, StepDefine
from shardmill.model.definition.task_count import pack_of, total
from shardmill.model.definition.validation import check_definition, public_document, stored_document

BALANCE_REPORT: dict[str, Any] = {
    "jobName": "balance-report",
    "params": {"reportDate": "2020-01-21"},
    "workerGroup": "default",
    "priority": 1,
    "appName": "finance",
    "failedRetries": 2,
    "failedInterval": 3,
    "rejectRetries": 10,
    "rejectInterval": 3,
    "timeoutSeconds": 3600,
    "onFailure": "fail",
    "concurrency": 1,
    "dependencies": [
        {"jobName": "ledger-close", "window": {"unit": "day", "from": 0, "to": 0}, "strategy": "all"}
    ],
    "info": {"project": "p", "pipeline": "q", "userattr": {"k": "v"}, "auth": False, "noretry": False},
    "steps": [
        {
            "stepName": "generate_files",
            "sharding": 12,
            "type": "shell",
            "content": "./generate --shard {{ shard.index }} --of {{ shard.total }} {{ params.reportDate }}",
            "outputs": [{"name": "part-{{ shard.index }}.csv", "nonzero": True}],
        },
        {
            "stepName": "merge_files",
            "dependentStep": "generate_files",
            "command": {
                "name": "./merge",
                "args": "@part-*.csv",
                "environ": {"public": {"LANG": "C"}, "private": {"KEY": "s3cret"}},
            },
            "inputs": [{"name": "part-*.csv", "origin": "generate_files"}],
            "outputs": [{"name": "balance.csv"}],
        },
    ],
}


def valid(document: object, path_name: str | None = None) -> JobDefine:
    define, faults = check_definition(document, path_name)
    assert faults == []
    assert define is not None
    return define


def faults_of(document: object, path_name: str | None = None) -> list[tuple[str, str]]:
    define, faults = check_definition(document, path_name)
    assert define is None
    return [(each.pointer, each.code) for each in faults]


def job(*steps: Any, **fields: Any) -> dict[str, Any]:
    return {"jobName": "j", "steps": list(steps) or [{"stepName": "a"}], **fields}


def step(name: str = "a", **fields: Any) -> dict[str, Any]:
    return {"stepName": name, **fields}


def message_of(document: object) -> str:
    (only,) = check_definition(document)[1]
    return only.message


def test_the_example_of_the_design_document_is_valid() -> None:
    define = valid(BALANCE_REPORT)
    generate, merge = define.steps
    assert (generate.type, generate.sharding, total(generate)) == ("shell", 12, 12)
    assert (merge.type, merge.dependent_steps, define.worker_groups) == (
        "command",
        ["generate_files"],
        ["default"],
    )
    assert define.dependencies[0].window.from_ == 0


def test_responses_have_canonical_names_and_no_secrets() -> None:
    answer = public_document(valid(BALANCE_REPORT))
    assert answer["workerGroups"] == ["default"]
    assert "workerGroup" not in answer
    merge = answer["steps"][1]
    assert merge["dependentSteps"] == ["generate_files"]
    assert merge["command"]["environ"] == {"public": {"LANG": "C"}, "private": {"KEY": "********"}}
    assert merge["command"]["hasPrivateEnv"] is True
    assert "s3cret" not in str(answer)
    assert "s3cret" in str(stored_document(valid(BALANCE_REPORT)))
    assert "s3cret" not in repr(valid(BALANCE_REPORT))


def test_a_response_can_be_saved_except_for_its_masked_values() -> None:
    added = {"version": 3, "createTime": "x", "updateTime": "x", "submitUser": "u", "updateUser": "u"}
    answer = {**public_document(valid(BALANCE_REPORT)), **added}
    assert faults_of(answer) == [("/steps/1/command/environ/private/KEY", "masked-value")]
    answer["steps"][1]["command"]["environ"]["private"]["KEY"] = "s3cret"
    assert valid(answer) == valid(BALANCE_REPORT)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"stepType": "SHARD", "shardConf": {"shard": 12}}, {"sharding": 12}),
        ({"shardConf": {"shard": 5, "startShardId": 3}}, {"sharding": 5, "startShardId": 3}),
        ({"shardConf": {"shard": 3, "maxTaskCount": 2}}, {"sharding": 3, "maxTaskCount": 2}),
        ({"stepType": "SIMPLE"}, {}),
        ({"stepType": "SIMPLE", "sharding": 1, "shardConf": {"startShardId": 0}}, {}),
        ({"dependentStep": "z"}, {"dependentSteps": ["z"]}),
        ({"dependency": {"phase": 2}}, {"phase": 2}),
        ({"dependency": {"doneSteps": ["z"]}}, {"doneSteps": ["z"]}),
        ({"dependentStep": "z", "dependency": {"steps": ["z", "y"]}}, {"dependentSteps": ["z", "y"]}),
        ({"dependentStep": "y", "dependentSteps": ["z"]}, {"dependentSteps": ["z", "y"]}),
        ({"traits": ["CAN_FAIL", "IGNORABLE"]}, {"canFail": True, "ignorable": True}),
        ({"traits": ["canIgnore", "can-fail", "archive"]}, {"canFail": True, "ignorable": True}),
        ({"traits": {"canFail": False, "ignorable": True}}, {"canFail": False, "ignorable": True}),
        ({"canFail": True, "traits": ["canFail"]}, {"canFail": True}),
        ({"dependency": {"steps": ["z"]}}, {"dependentSteps": ["z"]}),
        ({"dependency": {}}, {}),
        ({"workerGroup": "g"}, {"workerGroups": ["g"]}),
        ({"type": 1, "content": "x"}, {"type": "hive", "content": "x"}),
        ({"type": 4, "content": "x"}, {"type": "mapreduce", "content": "x"}),
        ({"content": "x"}, {"type": "shell", "content": "x"}),
        ({"command": {"name": "x"}}, {"type": "command", "command": {"name": "x"}}),
        ({}, {"type": "noop"}),
        ({"dependentStep": None, "shardConf": None}, {}),
        (
            {"packConf": {"size": 2, "start": 1, "end": 5, "maxTaskCount": 1}},
            {"stepType": "PACK", "packConf": {"size": 2, "start": 1, "end": 5}, "maxTaskCount": 1},
        ),
        (
            {"packConf": {"size": 2, "start": 1, "end": 5, "startPackId": 1}},
            {"stepType": "PACK", "packConf": {"size": 2, "start": 1, "end": 5}, "startShardId": 1},
        ),
        (
            {"packConf": {"size": 2, "start": 1, "end": 5}, "startPackId": 2},
            {"stepType": "PACK", "packConf": {"size": 2, "start": 1, "end": 5}, "startShardId": 2},
        ),
    ],
)
def test_alternative_spellings_are_equivalent(old: dict[str, Any], new: dict[str, Any]) -> None:
    one, other = (valid(job(step("z"), step("y"), step("a", **fields))) for fields in (old, new))
    assert one == other
    assert public_document(one) == public_document(other)


def test_a_step_can_be_called_name_and_a_duration_is_a_deadline() -> None:
    define = valid({"jobName": "j", "duration": 300_001, "steps": [{"name": "a"}]})
    assert (define.steps[0].step_name, define.deadline_seconds) == ("a", 301)
    assert public_document(define)["steps"] == [{"stepName": "a", "type": "noop"}]


def test_a_job_without_steps_becomes_one_step() -> None:
    define = valid({"jobName": "j", "type": 2, "content": "ls {{ params.a }}", "params": {"a": 1}})
    assert [(s.step_name, s.type, s.content) for s in define.steps] == [
        ("main", "shell", "ls {{ params.a }}")
    ]
    assert faults_of({"jobName": "j", "type": "shell"}) == [("/content", "missing-field")]
    assert faults_of({"jobName": "j", "type": 9, "content": "{{ params.b }}"}) == [
        ("/content", "bad-template"),
        ("/type", "bad-value"),
    ]
    assert faults_of(job(step(), type="shell", content="x")) == [
        ("/content", "both-spellings"),
        ("/type", "both-spellings"),
    ]


def test_the_name_is_taken_from_the_url() -> None:
    assert valid({"steps": [step()]}, "j").job_name == "j"
    assert faults_of(job(), "other") == [("/jobName", "name-mismatch")]


WRONG: list[tuple[dict[str, Any], str, str]] = [
    (job(step("a"), step("b", dependentStep="c")), "/steps/1/dependentStep", "unknown-step"),
    (job(step("a"), step("a")), "/steps/1/stepName", "duplicate-step"),
    (job(step("a", dependentSteps=["a"])), "/steps/0/dependentSteps", "cyclic-steps"),
    (job(step("a", phase=1), step("b", dependentSteps=["a"])), "/steps/1/dependentSteps/0", "later-phase"),
    (job({"name": "1a"}), "/steps/0/name", "bad-name"),
    (job({"stepName": "a", "name": "a"}), "/steps/0/name", "both-spellings"),
    (job(duration=0), "/duration", "bad-value"),
    (job(duration=1000, deadlineSeconds=1), "/duration", "both-spellings"),
    (job(step(stepType="SIMPLE", sharding=2)), "/steps/0/sharding", "both-spellings"),
    (job(step(stepType="SIMPLE", shardConf={"shard": 2})), "/steps/0/shardConf/shard", "both-spellings"),
    (
        job(step(stepType="SIMPLE", packConf={"size": 1, "start": 1, "end": 1})),
        "/steps/0/packConf",
        "both-spellings",
    ),
    (job(step(stepType="SIMPLE", items=[1])), "/steps/0/items", "both-spellings"),
    (job(step(stepType="ROUTINE")), "/steps/0/stepType", "bad-value"),
    (job(step(dependency={"steps": "z"})), "/steps/0/dependency/steps", "bad-type"),
    (job(step(dependency={"step": ["z"]})), "/steps/0/dependency/step", "unknown-field"),
    (job(step(dependency={"doneSteps": ["z"]})), "/steps/0/dependency/doneSteps/0", "unknown-step"),
    (job(step(phase=1, dependency={"phase": 1})), "/steps/0/dependency/phase", "both-spellings"),
    (
        job(step("a", dependency={"doneSteps": ["b"]}), step("b", dependentStep="a")),
        "/steps/0/dependency/doneSteps",
        "cyclic-steps",
    ),
    (
        job(step("a", phase=1), step("b", dependency={"doneSteps": ["a"]})),
        "/steps/1/dependency/doneSteps/0",
        "later-phase",
    ),
    (job(step(packConf={"size": "5", "start": 0, "end": 1})), "/steps/0/packConf/size", "bad-template"),
    (
        job(step(packConf={"size": 1, "start": 0, "end": "{{ params.nope }}"})),
        "/steps/0/packConf/end",
        "bad-template",
    ),
    (
        job(step(packConf={"size": 1, "start": 0, "end": "{{ pack.start }}"})),
        "/steps/0/packConf/end",
        "bad-template",
    ),
    (job(step(packConf={"size": 2**53, "start": 0, "end": 1})), "/steps/0/packConf/size", "out-of-range"),
    (job(step(packConf={"size": 1.5, "start": 0, "end": 1})), "/steps/0/packConf/size", "bad-type"),
    (job(step(traits=["canSkip"])), "/steps/0/traits/0", "bad-value"),
    (job(step(traits={"canFail": "yes"})), "/steps/0/traits/canFail", "bad-type"),
    (job(step(traits={"enable": ["canFail"]})), "/steps/0/traits/enable", "bad-type"),
    (job(step(canFail=False, traits=["canFail"])), "/steps/0/traits/0", "both-spellings"),
    (job(step(sharding=3, startShardId=3)), "/steps/0/startShardId", "no-tasks"),
    (job(step(items=[1], startShardId=1)), "/steps/0/startShardId", "no-tasks"),
    (
        job(step(packConf={"size": 2, "start": 1, "end": 5, "startPackId": 3})),
        "/steps/0/packConf/startPackId",
        "no-tasks",
    ),
    (job(step("1a")), "/steps/0/stepName", "bad-name"),
    (job(step("a\n")), "/steps/0/stepName", "bad-name"),
    (job(step("a" * 65)), "/steps/0/stepName", "bad-name"),
    (job(jobName="ä"), "/jobName", "bad-name"),
    (job(step(sharding=0)), "/steps/0/sharding", "out-of-range"),
    (job(step(sharding=1_000_001)), "/steps/0/sharding", "out-of-range"),
    (job(step(sharding="12")), "/steps/0/sharding", "bad-template"),
    (job(step(sharding=True)), "/steps/0/sharding", "bad-type"),
    (job(step(shardConf={"shard": 0})), "/steps/0/shardConf/shard", "out-of-range"),
    (job(step(shardConf=[])), "/steps/0/shardConf", "bad-type"),
    (job(step(packConf={"size": 1, "start": 0, "end": 1_000_000})), "/steps/0/packConf", "out-of-range"),
    (job(step(packConf={"size": 1, "start": 2, "end": 1})), "/steps/0/packConf/end", "out-of-range"),
    (job(step(packConf={"size": 0, "start": 1, "end": 1})), "/steps/0/packConf/size", "out-of-range"),
    (
        job(step(stepType="SHARD", packConf={"size": 1, "start": 1, "end": 1})),
        "/steps/0/packConf",
        "both-spellings",
    ),
    (job(step(stepType="PACK")), "/steps/0/packConf", "missing-field"),
    (
        job(step(sharding=2, packConf={"size": 1, "start": 1, "end": 1})),
        "/steps/0/sharding",
        "both-spellings",
    ),
    (job(step(sharding=2, shardConf={"shard": 2})), "/steps/0/shardConf/shard", "both-spellings"),
    (job(workerGroup="a", workerGroups=["a"]), "/workerGroup", "both-spellings"),
    (job(workerGroup=7), "/workerGroup", "bad-type"),
    (job(step(type="shell")), "/steps/0/content", "missing-field"),
    (job(step(type="command")), "/steps/0/command", "missing-field"),
    (job(step(type="python", content="nothing")), "/steps/0/content", "bad-value"),
    (job(step(type="cobol", content="x")), "/steps/0/type", "bad-value"),
    (job(step(content=5)), "/steps/0/content", "bad-type"),
    (job(step(toleratedFailures="101%")), "/steps/0/toleratedFailures", "bad-value"),
    (job(step(toleratedFailures=-1)), "/steps/0/toleratedFailures", "bad-value"),
    (job(step(toleratedFailures=True)), "/steps/0/toleratedFailures", "bad-value"),
    (job(step(content="{{ params.x }}")), "/steps/0/content", "bad-template"),
    (job(step(content="{{ pack.start }}")), "/steps/0/content", "bad-template"),
    (
        job(step(type="http", content={"url": "http://x", "body": ["{{"]})),
        "/steps/0/content/body/0",
        "bad-template",
    ),
    (
        job(step(command={"name": "x", "dockerimage": "{{ a }}"})),
        "/steps/0/command/dockerimage",
        "bad-template",
    ),
    (job(step(command={"name": "x", "args": "{{}}"})), "/steps/0/command/args", "bad-template"),
    (job(step(inputs=[{"name": "../x"}])), "/steps/0/inputs/0/name", "bad-file-name"),
    (job(step(outputs=[{"name": "a/../../x"}])), "/steps/0/outputs/0/name", "bad-file-name"),
    (job(step(predata=[{"name": "/etc/passwd"}])), "/steps/0/predata/0/name", "bad-file-name"),
    (job(step(inputs=[{"name": "C:\\x"}])), "/steps/0/inputs/0/name", "bad-file-name"),
    (job(step(inputs=[{"name": "x", "attrfile": ".."}])), "/steps/0/inputs/0/attrfile", "bad-file-name"),
    (job(step(inputs=[{"name": "x", "origin": "b"}])), "/steps/0/inputs/0/origin", "unknown-step"),
    (job(step(inputs=[{"name": "x", "origin": "a"}])), "/steps/0/inputs/0/origin", "unknown-step"),
    (
        job(step(inputs=[{"name": "x", "url": "http://u", "s3": {"bucket": "bbb", "key": "k"}}])),
        "/steps/0/inputs/0/s3",
        "both-spellings",
    ),
    (job(step(partition={"input": "x"})), "/steps/0/partition/input", "unknown-input"),
    (job(step(failed_retries=1)), "/steps/0/failed_retries", "unknown-field"),
    (job(step(shardConf={"shards": 2})), "/steps/0/shardConf/shards", "unknown-field"),
    (job(info={"groups": "a"}), "/info/groups", "unknown-field"),
    (job(**{"a/b~c": 1}), "/a~1b~0c", "unknown-field"),
    (job(params={"a=b": 1}), "/params/a=b", "bad-name"),
    (job(params={"a": "x\0"}), "/params/a", "bad-text"),
    (job(params={"a": "\ud800"}), "/params/a", "bad-text"),
    (job(params={"a": float("nan")}), "/params/a", "not-json"),
    (job(params={"a": datetime.date(2020, 1, 1)}), "/params/a", "not-json"),
    (job(params={"a": 10**40}), "/params/a", "out-of-range"),
    (job(dependencies=[{"jobName": "x", "strategy": "most"}]), "/dependencies/0/strategy", "bad-value"),
    (
        job(dependencies=[{"jobName": "x", "window": {"from": 1, "to": 0}}]),
        "/dependencies/0/window",
        "bad-value",
    ),
    (job(dependencies=[{"window": {}}]), "/dependencies/0/jobName", "missing-field"),
    (job(steps=[]), "/steps", "out-of-range"),
    ({"jobName": "j"}, "/steps", "missing-field"),
    (job(5), "/steps/0", "bad-type"),
    (job(steps={}), "/steps", "bad-type"),
    (job(*[step(f"s{at}") for at in range(2_001)]), "/steps", "too-many-steps"),
]


@pytest.mark.parametrize(("document", "pointer", "code"), WRONG)
def test_each_fault_has_its_pointer_and_code(document: dict[str, Any], pointer: str, code: str) -> None:
    assert faults_of(document) == [(pointer, code)]


def test_every_fault_is_reported_at_once() -> None:
    wrong = job(
        step("a", dependentStep="b", sharding=0, bogus=1),
        step("b", dependency={"steps": ["a"]}, content="{{ params.nope }}"),
        step("b", workerGroup="g", workerGroups=["h"]),
        priorty=3,
    )
    assert faults_of(wrong) == [
        ("/priorty", "unknown-field"),
        ("/steps/0/bogus", "unknown-field"),
        ("/steps/0/dependentStep", "cyclic-steps"),
        ("/steps/0/sharding", "out-of-range"),
        ("/steps/1/content", "bad-template"),
        ("/steps/2/stepName", "duplicate-step"),
        ("/steps/2/workerGroup", "both-spellings"),
    ]


@pytest.mark.parametrize(
    ("document", "part"),
    [
        (job(priorty=1), "did you mean 'priority'?"),
        (job(failed_retries=1), "did you mean 'failedRetries'?"),
        (job(step(executUser="u")), "did you mean 'executeUser'?"),
        (job(step("load"), step("b", dependentStep="laod")), "did you mean 'load'?"),
        (job(step("a", dependentStep="b"), step("b", dependentStep="a")), "a -> b -> a"),
        (
            job(step("c", dependentStep="b"), step("a", dependentStep="c"), step("b", dependentStep="a")),
            "c -> b -> a -> c",
        ),
        (job(step(command={"name": "x", "environ": {"private": {"K": "********"}}})), "give the value"),
        (job(step(sharding=2, shardConf={"shard": 2})), "'sharding'"),
        (job(step(sharding=0)), "or a {{ }} expression"),
        (job(step(items=3)), "or a {{ }} expression"),
        (job(step(stepType="PACK", packConf={"size": 1, "start": True, "end": 2})), "or a {{ }} expression"),
        (job(step(stepType="simple")), "must be one of SIMPLE, SHARD, PACK"),
    ],
)
def test_messages_suggest_a_correction(document: dict[str, Any], part: str) -> None:
    assert part in message_of(document)


@pytest.mark.parametrize("document", [None, 5, "x", [], [job()]])
def test_only_objects_are_accepted(document: object) -> None:
    assert faults_of(document) == [("", "bad-type")]


def test_deep_nesting_is_rejected() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert [code for _, code in faults_of(job(params={"deep": deep}))] == ["too-deep"]
    fits: Any = 1
    for _ in range(30):
        fits = [fits]
    valid(job(params={"fits": fits}))


def test_secrets_are_not_repeated_in_faults() -> None:
    for private in ({"K": ["s3cret"]}, {"K=": "s3cret"}, {"K": {"a": "s3cret"}}, "s3cret"):
        wrong = job(step(command={"name": "x", "environ": {"private": private}}))
        faults = check_definition(wrong)[1]
        assert faults
        assert "s3cret" not in str(faults)


def test_the_environment_of_a_command_is_rendered() -> None:
    environ = {"public": {"A": "{{ shard.index }}"}, "private": {"B": "{{ params.key }}-x"}}
    valid(job(step(command={"name": "x", "environ": environ}), params={"key": "k"}))
    for kind in ("public", "private"):
        for text in ("s3cret {{ params.nope }}", "s3cret{{s3cret", "{{ s3cret.x }}"):
            wrong = job(step(command={"name": "x", "environ": {kind: {"K": text}}}))
            assert faults_of(wrong) == [(f"/steps/0/command/environ/{kind}/K", "bad-template")]
            assert kind == "public" or "s3cret" not in message_of(wrong)


@pytest.mark.parametrize("kind", [None, "command", "shell", "noop", "docker"])
def test_a_step_has_a_content_or_a_command_but_not_both(kind: str | None) -> None:
    wrong = job(step(content="x", command={"name": "x"}, **({"type": kind} if kind else {})))
    assert faults_of(wrong) == [("/steps/0/content", "both-spellings")]


def test_two_thousand_steps_take_well_under_a_second() -> None:
    chain = job(
        *[step(f"s{n}", content="{{ shard.index }}", dependentSteps=[f"s{n - 1}"]) for n in range(2_000)]
    )
    chain["steps"][0]["dependentSteps"] = []
    valid(chain)
    chain["steps"][0]["dependentSteps"] = ["s1999"]
    assert [code for _, code in faults_of(chain)] == ["cyclic-steps"]


def test_faults_beyond_the_limit_are_counted() -> None:
    faults = check_definition(job(**{f"x{at}": 1 for at in range(3_000)}))[1]
    assert len(faults) == 1_001
    assert (faults[-1].code, faults[-1].message) == ("too-many-faults", "2000 more faults are not shown")


def test_packs_include_the_end_of_their_range() -> None:
    packed = valid(job(step(packConf={"size": 10, "start": 1, "end": 25}))).steps[0]
    assert [pack_of(packed, rank) for rank in range(total(packed))] == [(1, 10), (11, 20), (21, 25)]
    with pytest.raises(ValueError, match="has 3 tasks; there is no rank 3"):
        pack_of(packed, 3)
    with pytest.raises(ValueError, match="no packConf"):
        pack_of(StepDefine(step_name="a"), 0)
