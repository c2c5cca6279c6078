"""One run with everything that the older systems' documents describe, and the API's answers about it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from shardmill.model.worker import Lease
from support.scenarios.file_worker import FileWorker
from support.scenarios.job_runner import JobRunner
from support.scenarios.worker_api import heartbeat, lease, read_worker, register, report

FASTA = b">a\nACGT\n>b\nAC\n>c\nGT\n"
DAY = "2026-01-21T00:00:00.000Z"
TOKEN = "OAuth un=ada|sig=5ecre7"

LEDGER: dict[str, Any] = {  # a job of seed 001's system
    "type": 2,
    "content": "./close --day {{ job.dataTime }}",
    "priority": 3,
    "appName": "finance",
    "workerGroup": "awe",
    "rejectRetries": 4,
    "rejectInterval": 5,
    "failedRetries": 1,
    "failedInterval": 7,
    "executeUser": "etl",
    "info": {"noretry": True},
}
CRONTAB: dict[str, Any] = {"cron": "0 1 * * *", "startDate": 20260101, "endDate": 20261231, "status": 1}
PIPELINE: dict[str, Any] = {  # a definition of seed 000's system with the tasks of a document of seed 002's
    "params": {"reportDate": "2026-01-21"},
    "workerGroup": "awe",
    "priority": 2,
    "executeUser": "etl",
    "dependencies": ["ledger"],
    "info": {
        "name": "job7",
        "project": "mgrast",
        "user": "ada",
        "pipeline": "mgrast-v3",
        "auth": True,
        "noretry": False,
        "userattr": {"stage": "prod"},
    },
    "steps": [
        {
            "stepName": "make",
            "command": {"name": "make_reads.pl"},
            "outputs": [
                {"name": "reads.fna", "uploadIndex": "record", "nonzero": True, "attrfile": "reads.attr"},
                {"name": "log", "uploadName": "make.log", "optional": True},
            ],
        },
        {
            "stepName": "prep",
            "dependentStep": "make",
            "sharding": 2,
            "failedRetries": 1,
            "failedInterval": 1,
            "command": {
                "name": "awe_preprocess.pl",
                "args": "-input=@reads.fna -output=@prep-{{ shard.index }}.fna",
                "dockerimage": "mgrast/awe:1",
                "environ": {"public": {"LANG": "C"}, "private": {"KEY": "s3cret"}},
                "description": "preprocess",
            },
            "inputs": [{"name": "reads.fna", "origin": "make"}],
            "outputs": [{"name": "prep-{{ shard.index }}.fna"}],
            "predata": [
                {
                    "name": "h_sapiens.db",
                    "url": "https://shock.test/node/5f",
                    "host": "http://shock.test",
                    "node": "5f",
                }
            ],
            "partition": {"input": "reads.fna", "index": "record", "maxPartSizeMb": 1, "options": "fasta"},
        },
        {"stepName": "merge", "dependentSteps": ["prep"], "content": "cat prep-*.fna"},
    ],
}
REQUEST: dict[str, Any] = {
    "jobName": "pipeline",
    "trigger": "run7",
    "dataTime": DAY,
    "steps": [{"stepName": "prep", "params": {"quality": 20}}],
    "dataToken": TOKEN,
}
WORKER: dict[str, Any] = {
    "groups": ["awe"],
    "host": "node17",
    "ip": "10.1.2.3",
    "port": 8001,
    "cores": 8,
    "apps": ["*"],
    "slots": 2,
    "user": "awe",
    "domain": "magellan",
    "instanceId": "000dfa",
    "instanceType": "idp100",
    "proxy": True,
    "subclients": 5,
}
STEP, TASKS = "/v1/jobs/pipeline/run7/steps/prep", "/v1/jobs/pipeline/run7/steps/prep/tasks"


@dataclass
class SeedRun:
    """Answers by name (`Job` at the end, `Job.running` meanwhile …) and the times between the parts."""

    answers: dict[str, Any] = field(default_factory=dict)
    times: dict[str, datetime] = field(default_factory=dict)


def seed_run(runner: JobRunner) -> SeedRun:
    run = SeedRun()
    _Scenario(runner, run).play()
    return run


class _Scenario:
    def __init__(self, runner: JobRunner, run: SeedRun) -> None:
        self.runner = runner
        self.run = run
        self.files = FileWorker(runner)
        self.me: dict[str, Any] = {}

    def play(self) -> None:
        self.mark("start")
        self.save()
        self.mark("saved")
        self.me = register(self.runner, "host-17", **WORKER)
        self.mark("registered")
        self.submit()
        self.mark("submitted")
        self.end(self.take("ledger"))
        self.until(self.delivered_a_job_end)
        self.make()
        self.mark("made")
        self.prepare()
        self.mark("prepared")
        self.merge()
        self.mark("end")
        self.read_at_the_end()

    def mark(self, name: str) -> None:
        self.run.times[name] = datetime.now(UTC)
        time.sleep(0.005)  # rows truncate times to milliseconds

    def save(self) -> None:
        self.put("/v1/groups/awe", {"types": [1]})  # hive
        self.put("/v1/definitions/ledger", LEDGER)
        self.put("/v1/schedules/ledger/s1", CRONTAB)
        self.put("/v1/definitions/pipeline", {**PIPELINE, "description": "first"})
        self.put("/v1/definitions/pipeline", PIPELINE)

    def submit(self) -> None:
        self.runner.submit("t1", "ledger", dataTime=DAY)
        self.runner.post("/v1/jobs", REQUEST, 202)
        self.keep("DependencyStatus.waiting", "/v1/jobs/pipeline/run7/dependencies")
        self.keep("Job.waiting", "/v1/jobs/pipeline/run7")

    def make(self) -> None:
        held = self.take("make")
        heartbeat(self.runner, self.me, held)
        self.run.answers["Worker.busy"] = read_worker(self.runner, self.me)
        self.keep("Job.running", "/v1/jobs/pipeline/run7")
        stored = self.store(held[0], {"reads.fna": FASTA, "make.log": b"ok"})
        stored[0] |= {"indexed": {"by": "record", "units": 3}, "attributes": {"kind": "reads"}}
        self.end(held, files=stored)

    def prepare(self) -> None:
        first, second = self.take("prep", 2)
        self.keep("Step.running", STEP)
        self.keep("Task.running", f"{TASKS}/{first['sharding']['index']}")
        self.end([first], outcome="failed", exitCode=7, reason="exit code 7", stderr="no space")
        self.keep("Task.retry", f"{TASKS}/{first['sharding']['index']}")
        self.finish_part(second)
        [again] = self.take("prep")
        self.finish_part(again)
        self.run.answers["retried"] = again

    def finish_part(self, task: dict[str, Any]) -> None:
        part = {f"prep-{task['sharding']['index']}.fna": b"12345"}
        self.end([task], files=self.store(task, part))

    def merge(self) -> None:
        held = self.take("merge")
        self.run.answers["failed"] = held[0]["taskId"]
        self.end(held, outcome="failed-permanent", exitCode=42, reason="exit code 42")
        self.until(lambda: self.runner.ended("run7", "pipeline"))

    def read_at_the_end(self) -> None:
        again = self.run.answers["retried"]["sharding"]["index"]
        for name, path in {
            "Job": "/v1/jobs/pipeline/run7",
            "Step": STEP,
            "Step.make": "/v1/jobs/pipeline/run7/steps/make",
            "Step.merge": "/v1/jobs/pipeline/run7/steps/merge",
            "Task": f"{TASKS}/{again}",
            "SavedDefine": "/v1/definitions/pipeline",
            "SavedDefine.ledger": "/v1/definitions/ledger",
            "SavedSchedule": "/v1/schedules/ledger/s1",
            "WorkerGroup": "/v1/groups/awe",
            "DependencyStatus": "/v1/jobs/pipeline/run7/dependencies",
            "Job.ledger": "/v1/jobs/ledger/t1",
        }.items():
            self.keep(name, path)
        heartbeat(self.runner, self.me, [])  # it is online however long the run took
        self.run.answers["Worker"] = read_worker(self.runner, self.me)
        self.mark("read")
        self.run.answers["JobRequest"] = REQUEST

    def keep(self, name: str, path: str) -> None:
        answer = self.runner.cloud.http("GET", path)
        assert answer.status == 200, answer
        self.run.answers[name] = answer.json["items"][0] if path.endswith("/dependencies") else answer.json

    def put(self, path: str, document: dict[str, Any]) -> None:
        answer = self.runner.cloud.http("PUT", path, document)
        assert answer.status in (200, 201), answer

    def take(self, what: str, count: int = 1) -> list[dict[str, Any]]:
        held: list[dict[str, Any]] = []

        def more() -> None:
            held.extend(lease(self.runner, self.me, count - len(held)))

        self.runner.cloud.run_until(lambda: len(held) == count, 100, meanwhile=more)
        assert {task["stepName"] for task in held} <= {what, "main"}
        time.sleep(0.02)  # so that its compute time is more than 0
        return held

    def store(self, task: dict[str, Any], files: dict[str, bytes]) -> list[dict[str, Any]]:
        return self.files.store(Lease.model_validate(task), files, worker=self.me["id"])

    def end(self, tasks: list[dict[str, Any]], **more: Any) -> None:
        answer = report(self.runner, self.me, tasks, **more)
        assert answer.status == 200, answer

    def delivered_a_job_end(self) -> bool:
        events = self.runner.cloud.deliver_job_ends()
        return any(event["detail-type"] == "Job Ended" for event in events)

    def until(self, predicate: Any) -> None:
        self.runner.cloud.run_until(predicate, 60)
