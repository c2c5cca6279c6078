"""Every field of the older systems' documents has its true value in the answers about one real run."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest

from support.moto.moto_cloud import moto_cloud
from support.paths import PROJECT
from support.scenarios.job_runner import JobRunner
from support.scenarios.seed_run import CRONTAB, DAY, FASTA, LEDGER, PIPELINE, SeedRun, seed_run

Holds = Callable[[Any, SeedRun], bool]
with (PROJECT / "docs" / "seed-map.csv").open(newline="", encoding="utf-8") as _file:
    SEED_MAP = list(csv.DictReader(_file))


@pytest.fixture(scope="module")
def run() -> Iterator[SeedRun]:
    with moto_cloud() as cloud:
        yield seed_run(JobRunner(cloud))


@dataclass(frozen=True)
class Check:
    """What holds for the value at `path` of an answer; the path is that of the map unless given."""

    answer: str
    holds: Holds
    path: str = ""


def on(answer: str, expected: Any, path: str = "") -> Check:
    """The value equals what is expected, or a function of the value and the run returns true."""
    if callable(expected):
        return Check(answer, expected, path)
    return Check(answer, lambda value, _: type(value) is type(expected) and value == expected, path)


def at(answer: str, first: str, last: str, path: str = "") -> Check:
    """The value is a time between two marks of the run."""
    return on(answer, lambda value, run: run.times[first] <= moment(value) <= run.times[last], path)


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def value_at(answer: Any, path: str) -> Any:
    """The value at a path; of a list, that of its first element unless the path has a number."""
    for part in path.split(".") if path else ():
        if isinstance(answer, list):
            answer = answer[int(part)] if part.isdigit() else answer[0]
            if part.isdigit():
                continue
        answer = answer[part]
    return answer


def names(*expected: str) -> Holds:
    return lambda value, _: [each["stepName"] for each in value] == [*expected]


def same_as(answer: str, path: str) -> Holds:
    """Equal to another value, which is there."""
    return lambda value, run: value not in (None, "", 0) and value == value_at(run.answers[answer], path)


def all_of(*conditions: Holds) -> Holds:
    return lambda value, run: all(holds(value, run) for holds in conditions)


def elsewhere(answer: str, path: str, expected: Any) -> Holds:
    """The same field of another answer has another value: it is not always the same."""
    return lambda _, run: value_at(run.answers[answer], path) == expected


def equals(expected: Any) -> Holds:
    return lambda value, _: bool(value == expected)


def positive(value: Any, _: SeedRun) -> bool:
    return isinstance(value, int | float) and 0 < value < 600


def attempts(value: Any, run: SeedRun) -> bool:
    first, second = value
    worker = run.answers["Worker"]["id"]
    return (
        (first["attempt"], first["outcome"], first["exitCode"], first["worker"]) == (1, "failed", 7, worker)
        and (first["reason"], first["message"], first["stderr"]) == ("failed", "exit code 7", "no space")
        and (second["attempt"], second["outcome"], second["worker"]) == (2, "success", worker)
        and first["startTime"] < first["endTime"] <= second["startTime"] < second["endTime"]
    )


def in_order(*paths: str) -> Holds:
    """Times of a step that follow each other, and its predecessor's end."""

    def holds(value: Any, run: SeedRun) -> bool:
        times = [run.answers["Step.make"]["completedTime"]]
        times += [run.answers["Step"][path] for path in paths]
        return value in times and all(times) and times == sorted(times)

    return holds


def served(value: Any, run: SeedRun) -> bool:
    least, most = (
        (run.times[mark] - run.times[first]).total_seconds()
        for mark, first in (("end", "registered"), ("read", "saved"))
    )
    return isinstance(value, int) and int(least) <= value <= most and value > 0


def task_id(value: Any, run: SeedRun) -> bool:
    return bool(value == f"{run.answers['Job']['id']}_1_{run.answers['Task']['rank']}")


STEPS = ("make", "prep", "merge")
INFO = {**PIPELINE["info"], "clientgroups": None}
PARAMS = {"reportDate": "2026-01-21", "quality": 20}
PREP = PIPELINE["steps"][1]
MASKED = {"public": {"LANG": "C"}, "private": {"KEY": "********"}}
TIMES = ("queuedTime", "startedTime", "completedTime")

# By the column `where` of the map, or by seed, entity and field where rows with the same `where` differ.
CHECKS = {
    "JobDefine.jobName": on("SavedDefine", "pipeline"),
    "JobDefine.steps": on("SavedDefine", names(*STEPS)),
    "StepDefine.stepName": on("SavedDefine", "prep", "steps.1.stepName"),
    "StepDefine.sharding": on("SavedDefine", 2, "steps.1.sharding"),
    "StepDefine.dependentSteps": on("SavedDefine", ["make"], "steps.1.dependentSteps"),
    "JobRequest.jobName": on("JobRequest", same_as("Job", "jobName")),
    "JobRequest.trigger": on("JobRequest", same_as("Job", "trigger")),
    "JobRequest.steps": on("JobRequest", names("prep")),
    "JobRequest.steps.stepName": on("JobRequest", same_as("Step", "stepName")),
    "JobRequest.steps.params": on(
        "JobRequest", lambda value, run: value.items() <= run.answers["Step"]["params"].items()
    ),
    "Job.jobName": on("Job", "pipeline"),
    "Job.trigger": on("Job", "run7"),
    "Job.steps": on("Job", names(*STEPS)),
    "Job.state": on("Job", all_of(equals("FAILED"), elsewhere("Job.running", "state", "RUNNING"))),
    "Step.stepName": on("Step", "prep"),
    "Step.state": on("Step", all_of(equals("SUCCESS"), elsewhere("Step.merge", "state", "FAILED"))),
    "Step.taskStates": on("Step", {"0": "SUCCESS", "1": "SUCCESS"}),
    "Step.params": on("Step", PARAMS),
    "Task.jobName": on("Task", "pipeline"),
    "Task.trigger": on("Task", "run7"),
    "Task.stepName": on("Task", "prep"),
    "Task.sharding.total": on("Task", 2),
    "Task.sharding.index": on(
        "Task", lambda value, run: value == run.answers["retried"]["sharding"]["index"]
    ),
    "Task.params": on("Task", PARAMS),
    "Task.createTime": on("Task", same_as("Step", "queuedTime")),
    "SavedDefine.jobName": on("SavedDefine.ledger", "ledger"),
    "001.jobDepend.jobId": on("SavedDefine", "pipeline"),
    "StepDefine.type": on("SavedDefine.ledger", "shell", "steps.0.type"),
    "StepDefine.content": on("SavedDefine.ledger", LEDGER["content"], "steps.0.content"),
    "JobDefine.priority": on("SavedDefine.ledger", 3),
    "JobDefine.appName": on("SavedDefine.ledger", "finance"),
    "JobDefine.workerGroups": on("SavedDefine.ledger", ["awe"]),
    "JobDefine.rejectRetries": on("SavedDefine.ledger", 4),
    "JobDefine.rejectInterval": on("SavedDefine.ledger", lambda value, _: value == 5),
    "JobDefine.failedRetries": on("SavedDefine.ledger", 1),
    "JobDefine.failedInterval": on("SavedDefine.ledger", lambda value, _: value == 7),
    "SavedDefine.submitUser": on("SavedDefine.ledger", same_as("Job", "submitUser")),
    "JobDefine.executeUser": on("SavedDefine.ledger", "etl"),
    "SavedDefine.createTime": at("SavedDefine", "start", "saved"),
    "SavedDefine.updateTime": on(
        "SavedDefine",
        lambda value, run: (
            run.answers["SavedDefine"]["createTime"] < value and moment(value) <= run.times["saved"]
        ),
    ),
    "Dependency.jobName": on("SavedDefine", "ledger", "dependencies.jobName"),
    "SavedDefine.updateUser": on("SavedDefine", same_as("Job", "submitUser")),
    "DependencyStatus.jobName": on("DependencyStatus", "pipeline"),
    "DependencyStatus.preJob": on("DependencyStatus", "ledger"),
    "DependencyStatus.preId": on("DependencyStatus", same_as("Job.ledger", "id")),
    "DependencyStatus.preStatus": on(
        "DependencyStatus", all_of(equals(1), elsewhere("DependencyStatus.waiting", "preStatus", 0))
    ),
    "DependencyStatus.updateTime": on("DependencyStatus", same_as("Job.ledger", "updateTime")),
    "Schedule.scheduleId": on("SavedSchedule", "s1"),
    "Schedule.jobName": on("SavedSchedule", "ledger"),
    "Schedule.status": on("SavedSchedule", 1),
    "Schedule.cron": on("SavedSchedule", CRONTAB["cron"]),
    "Schedule.startDate": on("SavedSchedule", lambda value, _: str(value).startswith("2026-01-01")),
    "Schedule.endDate": on("SavedSchedule", lambda value, _: str(value).startswith("2026-12-31")),
    "SavedSchedule.updateUser": on("SavedSchedule", same_as("Job", "submitUser")),
    "SavedSchedule.updateTime": at("SavedSchedule", "start", "saved"),
    "Task.id": on("Task", task_id),
    "Task.jobId": on("Task", same_as("Job", "id")),
    "Task.status": on("Task", all_of(equals(4), elsewhere("Task.running", "status", 3))),
    "Task.attempt": on("Task", 2),
    "Task.attempts": on("Task", attempts),
    "Task.submitUser": on("Task", same_as("Job", "submitUser")),
    "Task.executeUser": on("Task", "etl"),
    "Task.executeTime": on(
        "Task", lambda value, run: value == run.answers["Task"]["attempts"][1]["startTime"]
    ),
    "Task.dataTime": on("Task", DAY),
    "Task.updateTime": on(
        "Task",
        lambda value, run: (
            value == run.answers["Task"]["completedTime"]
            and run.answers["Task.retry"]["updateTime"] == run.answers["Task.retry"]["attempts"][0]["endTime"]
        ),
    ),
    "Worker.id": on("Worker", same_as("Task", "worker")),
    "Worker.name": on("Worker", "host-17"),
    "Worker.ip": on("Worker", all_of(equals("10.1.2.3"), elsewhere("Worker", "sourceIp", "127.0.0.1"))),
    "Worker.port": on("Worker", 8001),
    "Worker.status": on("Worker", 3),
    "Worker.createTime": at("Worker", "saved", "registered"),
    "Worker.updateTime": at("Worker", "end", "read"),
    "WorkerGroup.id": on("WorkerGroup", "awe"),
    "WorkerGroup.name": on("WorkerGroup", "awe"),
    "WorkerGroup.createTime": at("WorkerGroup", "start", "saved"),
    "WorkerGroup.updateTime": at("WorkerGroup", "start", "saved"),
    "Worker.bindings.group": on("Worker", "awe"),
    "Worker.bindings.createTime": at("Worker", "saved", "registered"),
    "Worker.bindings.updateTime": at("Worker", "saved", "registered"),
    "WorkerGroup.bindings.type": on("WorkerGroup", "hive"),
    "WorkerGroup.bindings.createTime": at("WorkerGroup", "start", "saved"),
    "WorkerGroup.bindings.updateTime": at("WorkerGroup", "start", "saved"),
    "Job.id": on("Job", lambda value, run: len(value) == 36 and run.answers["failed"] == f"{value}_2_0"),
    "Job.jid": on("Job", lambda value, run: value > run.answers["Job.ledger"]["jid"] > 0),
    "Job.info": on("Job", INFO),
    "Job.registered": on("Job", all_of(equals(False), elsewhere("Job.running", "registered", expected=True))),
    "Job.remainTasks": on("Job", all_of(equals(1), elsewhere("Job.running", "remainTasks", 3))),
    "Job.updateTime": at("Job", "prepared", "end"),
    "Job.notes": on("Job", lambda value, _: "merge" in value and "failed" in value),
    "Job.lastFailed": on("Job", lambda value, run: value == run.answers["failed"]),
    "Step.id": on("Step", lambda value, run: value == f"{run.answers['Job']['id']}_1"),
    "Step.info": on("Step", INFO),
    "Step.inputs": on("Step", lambda value, _: [each["name"] for each in value] == ["reads.fna"]),
    "Step.outputs": on(
        "Step", lambda value, _: [each["name"] for each in value] == [PREP["outputs"][0]["name"]]
    ),
    "Step.predata": on("Step", lambda value, _: [each["name"] for each in value] == ["h_sapiens.db"]),
    "Step.command": on("Step", lambda value, _: value["name"] == "awe_preprocess.pl"),
    "Step.dependentSteps": on("Step", ["make"]),
    "Step.partition.maxPartSizeMb": on("Step", 1),
    "Step.totalWork": on("Step", 2),
    "Step.remainWork": on("Step", all_of(equals(0), elsewhere("Step.running", "remainWork", 2))),
    "Step.queuedTime": on("Step", in_order(*TIMES)),
    "Step.startedTime": on("Step", in_order(*TIMES)),
    "Step.completedTime": on("Step", in_order(*TIMES)),
    "Step.computeTime": on("Step", positive),
    "Task.info": on("Task", INFO),
    "Task.inputs": on("Task", lambda value, _: [each["name"] for each in value] == ["reads.fna"]),
    "Task.outputs": on(
        "Task",
        lambda value, run: [each["name"] for each in value] == [f"prep-{run.answers['Task']['rank']}.fna"],
    ),
    "Task.predata": on("Task", lambda value, _: [each["name"] for each in value] == ["h_sapiens.db"]),
    "Task.command": on("Task", lambda value, _: value["name"] == "awe_preprocess.pl"),
    "Task.rank": on("Task", lambda value, run: value == run.answers["retried"]["sharding"]["index"]),
    "Task.state": on("Task", all_of(equals("SUCCESS"), elsewhere("Task.running", "state", "RUNNING"))),
    "Task.failed": on("Task", 1),
    "Task.checkoutTime": on(
        "Task",
        lambda value, run: (
            value == run.answers["Task"]["attempts"][1]["startTime"]
            and run.answers["Task.retry"]["checkoutTime"] == run.answers["Task"]["attempts"][0]["startTime"]
        ),
    ),
    "Task.worker": on("Task", same_as("Worker", "id")),
    "Task.computeTime": on("Task", positive),
    "Worker.groups": on("Worker", ["awe"]),
    "Worker.user": on("Worker", "awe"),
    "Worker.domain": on("Worker", "magellan"),
    "Worker.instanceId": on("Worker", "000dfa"),
    "Worker.instanceType": on("Worker", "idp100"),
    "Worker.remainTasks": on("Worker", all_of(equals(0), elsewhere("Worker.busy", "remainTasks", 1))),
    "Worker.host": on("Worker", "node17"),
    "Worker.cores": on("Worker", 8),
    "Worker.apps": on("Worker", ["*"]),
    "Worker.serveTime": on("Worker", served),
    "Worker.idleTime": on(
        "Worker",
        lambda value, run: isinstance(value, int) and 0 <= value <= run.answers["Worker"]["serveTime"],
    ),
    "Worker.activity": on("Worker", all_of(equals("idle"), elsewhere("Worker.busy", "activity", "busy"))),
    "Worker.totalCheckout": on("Worker", 6),
    "Worker.totalCompleted": on("Worker", 4),
    "Worker.totalFailed": on("Worker", 2),
    "Worker.currentWork": on("Worker.busy", lambda value, run: value == [f"{run.answers['Job']['id']}_0_0"]),
    "Worker.skipWork": on(
        "Worker", lambda value, run: value == sorted([run.answers["Task"]["id"], run.answers["failed"]])
    ),
    "Worker.proxy": on("Worker", expected=True),
    "Worker.subclients": on("Worker", 5),
    "Info.name": on("Job", "job7", "info.name"),
    "Info.project": on("Job", "mgrast", "info.project"),
    "Info.user": on("Job", "ada", "info.user"),
    "Info.pipeline": on("Job", "mgrast-v3", "info.pipeline"),
    "Job.workerGroups": on("Job", ["awe"]),
    "Job.createTime": at("Job", "registered", "submitted"),
    "Job.startedTime": at("Job", "submitted", "made"),
    "Job.completedTime": at("Job", "prepared", "end"),
    "Job.priority": on("Job", 2),
    "Info.auth": on("Job", expected=True, path="info.auth"),
    "Info.noretry": on("Job.ledger", expected=True, path="info.noretry"),
    "Info.userattr": on("Job", {"stage": "prod"}, "info.userattr"),
    "Partition.input": on("Step", "reads.fna", "partition.input"),
    "Partition.index": on("Step", "record", "partition.index"),
    "Partition.totalIndex": on("Step", 3, "partition.totalIndex"),
    "Partition.maxPartSizeMb": on("Step", 1, "partition.maxPartSizeMb"),
    "Partition.options": on("Step", "fasta", "partition.options"),
    "File.name": on("Step", "h_sapiens.db", "predata.name"),
    "File.host": on("Step", "http://shock.test", "predata.host"),
    "File.node": on("Step", "5f", "predata.node"),
    "File.url": on("Step", "https://shock.test/node/5f", "predata.url"),
    "RunFile.size": on("Step.make", len(FASTA), "outputs.0.size"),
    "File.origin": on("Step", "make", "inputs.origin"),
    "File.nonzero": on("Step.make", expected=True, path="outputs.0.nonzero"),
    "File.uploadName": on("Step.make", "make.log", "outputs.1.uploadName"),
    "File.uploadIndex": on("Step.make", "record", "outputs.0.uploadIndex"),
    "File.attrfile": on("Step.make", "reads.attr", "outputs.0.attrfile"),
    "Command.name": on("Step", "awe_preprocess.pl", "command.name"),
    "Command.args": on("Step", PREP["command"]["args"], "command.args"),
    "Command.dockerimage": on("Step", "mgrast/awe:1", "command.dockerimage"),
    "Command.environ": on("Step", MASKED, "command.environ"),
    "Command.hasPrivateEnv": on("Step", expected=True, path="command.hasPrivateEnv"),
    "Command.description": on("Step", "preprocess", "command.description"),
}


def _check(row: dict[str, str]) -> Check:
    return CHECKS.get(_name(row)) or CHECKS[row["where"]]


def _name(row: dict[str, str]) -> str:
    return f"{row['seed']}.{row['entity']}.{row['field']}"


def test_every_row_has_a_check_of_its_own_field() -> None:
    assert len(SEED_MAP) == 180
    for row in SEED_MAP:
        check = _check(row)
        assert not check.path or check.path.endswith(f".{row['where'].rpartition('.')[2]}"), row
    assert CHECKS.keys() <= {row["where"] for row in SEED_MAP} | {_name(row) for row in SEED_MAP}


@pytest.mark.parametrize("row", SEED_MAP, ids=_name)
def test_the_field_has_its_true_value(run: SeedRun, row: dict[str, str]) -> None:
    check = _check(row)
    value = value_at(run.answers[check.answer], check.path or row["where"].partition(".")[2])
    assert check.holds(value, run), f"{row['where']} of {check.answer} is {value!r}"


def test_a_missing_value_does_not_satisfy_a_check(run: SeedRun) -> None:
    for row in SEED_MAP:
        for missing in (None, "", []):
            with suppress(TypeError, ValueError, KeyError, AttributeError):
                assert not _check(row).holds(missing, run), row
