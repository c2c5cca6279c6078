"""Job requests, and the documents of jobs, steps and tasks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from shardmill.model.actor import Actor
from shardmill.model.definition.command import Command, Environ
from shardmill.model.definition.fields import JobDefine, StepDefine
from shardmill.model.job import Attempt, Job, Sharding, Step, Task
from shardmill.model.request import JobRequest, check_request
from shardmill.model.states import JobState, StepState, TaskState
from shardmill.model.timestamps import from_ms, to_ms

NOW = datetime(2020, 1, 23, 4, 14, 44, 900_000, tzinfo=UTC)
DEFINE = JobDefine(job_name="j", steps=[StepDefine(step_name="load"), StepDefine(step_name="merge")])


def faults_of(document: object, define: JobDefine | None = DEFINE) -> list[tuple[str, str]]:
    request, faults = check_request(document, define)
    assert (request is None) == bool(faults)
    return [(each.pointer, each.code) for each in faults]


def test_the_request_of_seed_000_is_accepted() -> None:
    request, faults = check_request(
        {
            "jobName": "j",
            "trigger": "20191031",
            "steps": [{"stepName": "load", "params": {"param1": "value1"}}],
            "dataTime": "2020-01-23T05:14:44.9004+01:00",
        },
        DEFINE,
    )
    assert faults == []
    assert request is not None
    assert request.data_time == NOW
    assert request.steps[0].params == {"param1": "value1"}
    assert request.model_dump(mode="json", exclude_unset=True)["dataTime"] == "2020-01-23T04:14:44.900Z"


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({}, [("/jobName", "missing-field")]),
        ([], [("", "bad-type")]),
        ({"jobName": "j", "trigger": "-x"}, [("/trigger", "bad-trigger")]),
        ({"jobName": "j", "trigger": "x" * 65}, [("/trigger", "bad-trigger")]),
        ({"jobName": "j", "trigger": ""}, [("/trigger", "bad-trigger")]),
        ({"jobName": "j", "trigger": 5}, [("/trigger", "bad-type")]),
        ({"jobName": "j", "job_name": "j"}, [("/job_name", "unknown-field")]),
        ({"jobName": "j", "dataTime": "soon"}, [("/dataTime", "bad-time")]),
        ({"jobName": "j", "dataTime": "0001-01-01T00:00:00+14:00"}, [("/dataTime", "bad-time")]),
        ({"jobName": "j", "dataTime": 5}, [("/dataTime", "bad-type")]),
        ({"jobName": "j", "params": {"a": "\0"}}, [("/params/a", "bad-text")]),
        ({"jobName": "j", "priority": 2**60}, [("/priority", "out-of-range")]),
        (
            {"jobName": "1", "steps": [{"stepName": "x"}, {"stepName": "load"}, {"stepName": "load"}, 5]},
            [
                ("/jobName", "bad-name"),
                ("/steps/0/stepName", "unknown-step"),
                ("/steps/2/stepName", "duplicate-step"),
                ("/steps/3", "bad-type"),
            ],
        ),
    ],
)
def test_every_fault_of_a_request_is_reported(document: object, expected: list[tuple[str, str]]) -> None:
    assert faults_of(document) == expected


def test_without_a_definition_step_names_are_not_checked() -> None:
    assert faults_of({"jobName": "j", "steps": [{"stepName": "x"}]}, None) == []


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=6,
)


@given(
    st.dictionaries(st.sampled_from(["jobName", "trigger", "steps", "params", "dataTime", "info"]), anything)
)
def test_any_request_is_validated_without_a_crash(document: dict[str, Any]) -> None:
    faults_of(document)


def a_task(**fields: Any) -> Task:
    return Task(
        **{
            "id": "i_0_9",
            "job_id": "i",
            "job_name": "j",
            "trigger": "t",
            "step_name": "s",
            "rank": 9,
            "sharding": Sharding(total=12, index=9),
            "state": TaskState.READY,
            "create_time": NOW,
            **fields,
        }
    )


def a_job(**fields: Any) -> Job:
    return Job(
        **{
            "id": "i",
            "jid": 1,
            "job_name": "j",
            "trigger": "t",
            "state": JobState.RUNNING,
            "definition_version": 1,
            "submit_user": "admin",
            "create_time": NOW,
            "update_time": NOW,
            **fields,
        }
    )


def test_the_task_of_seed_000_is_accepted() -> None:
    answer = a_task(params={"host": "9"}).model_dump(mode="json")
    assert answer["sharding"] == {"total": 12, "index": 9}
    assert answer["createTime"] == "2020-01-23T04:14:44.900Z"
    assert answer["params"] == {"host": "9"}


def test_states_have_the_numbers_of_seed_001() -> None:
    numbers = {state: a_task(state=state).status for state in TaskState}
    assert numbers == {
        TaskState.WAITING: 1,
        TaskState.SUSPENDED: 1,
        TaskState.READY: 2,
        TaskState.RUNNING: 3,
        TaskState.SUCCESS: 4,
        TaskState.FAILED: 5,
        TaskState.KILLED: 6,
    }


def test_a_job_is_registered_until_it_ends() -> None:
    assert {state for state in JobState if a_job(state=state).registered} == {
        *(JobState.INIT, JobState.WAITING, JobState.QUEUED, JobState.RUNNING, JobState.SUSPENDED)
    }


def test_responses_contain_no_private_values() -> None:
    command = Command(name="x", environ=Environ(public={"A": "a"}, private={"KEY": "s3cret"}))
    step = Step(id="i_0", step_name="s", index=0, state=StepState.READY, command=command)
    task = a_task(command=command)
    for answer in (step, task, a_job(steps=[step])):
        assert "s3cret" not in answer.model_dump_json()
        assert "s3cret" not in repr(answer)
        assert '"KEY":"********"' in answer.model_dump_json()
    assert command.environ.private == {"KEY": "s3cret"}
    assert "s3cret" not in repr(command)


def test_a_response_is_parsed_and_unknown_fields_are_ignored() -> None:
    job = a_job(
        steps=[Step(id="i_0", step_name="s", index=0, state=StepState.READY, counts={TaskState.READY: 1})]
    )
    answer = job.model_dump(mode="json")
    assert Job.model_validate(answer) == job
    assert Job.model_validate({**answer, "comesLater": 1}) == job
    with pytest.raises(ValidationError):
        JobRequest.model_validate({"jobName": "j", "comesLater": 1})


def test_times_convert_to_milliseconds_and_back() -> None:
    assert to_ms(NOW) == 1_579_752_884_900
    assert from_ms(1_579_752_884_900) == NOW
    assert Attempt.model_validate({"attempt": 1, "startTime": 1_579_752_884_900}).start_time == NOW


@given(st.timedeltas(timedelta(days=-700_000), timedelta(days=2_900_000)), st.integers(-14, 14))
def test_times_are_utc_with_milliseconds_and_are_parsed_back(since: timedelta, hours: int) -> None:
    zoned = (NOW + since).astimezone(timezone(timedelta(hours=hours)))
    task = a_task(create_time=zoned)
    assert timedelta(0) <= zoned - task.create_time < timedelta(milliseconds=1)
    wire = task.model_dump(mode="json")["createTime"]
    assert wire.endswith("Z")
    assert a_task(create_time=wire) == task
    assert from_ms(to_ms(task.create_time)) == task.create_time


def test_an_actor_is_an_immutable_value() -> None:
    assert Actor("admin") == Actor(name="admin")
