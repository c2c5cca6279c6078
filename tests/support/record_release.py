"""Record what a release leaves in mid-job: rows, messages, running executions and their definitions.

Run it with the sources of that release, from a folder with its files:

    git archive <commit> | tar x -C old && cd old
    PYTHONPATH=layers/core/python:tests python record_release.py <commit> > release-<commit>.json

tests/integration/deployment/test_upgrade.py puts the recording into a stack of this release and finishes the
Jobs.
"""

from __future__ import annotations

import base64
import json
import sys
from typing import Any

from moto.sqs.models import sqs_backends

from support.moto.cloud import Cloud
from support.moto.moto_cloud import moto_cloud
from support.moto.stack import ACCOUNT, REGION
from support.scenarios.job_runner import JobRunner

ONLY = {"stepName": "only", "content": "x", "sharding": 2}
YEARS = 316_224_000


def half_run(runner: JobRunner) -> None:
    """Jobs in every phase, and tasks that ended, are held by a worker, or wait for a retry."""
    runner.define(
        {"stepName": "first", "content": "x", "sharding": 3},
        {"stepName": "wide", "content": "x", "sharding": 130, "maxTaskCount": 40, "dependentStep": "first"},
        {"stepName": "last", "content": "x", "dependentStep": "wide"},
        failedInterval=1,
        failedRetries=2,
    )
    today = {"jobName": "orders", "window": {"unit": "day", "from": 0, "to": 0}}
    runner.define(ONLY, name="child", dependencies=[today], expiredSeconds=YEARS)
    runner.define(ONLY, name="single", concurrency=1)
    runner.submit()
    runner.worker.report(runner.take(3), "success")
    runner.worker.report(runner.take(20), "success")
    runner.worker.report(runner.take(1), "failed", reason="first try")
    runner.take(5)
    runner.submit("waits", name="child")
    runner.submit("one", name="single")
    runner.submit("two", name="single")
    runner.submit("parked")
    runner.cloud.run_until(lambda: runner.mill.jobs.find("orders", "parked").state.value != "INIT", 10)
    runner.post("/v1/jobs/orders/parked:suspend")
    cron = {"cron": "0 3 * * *", "timezone": "Europe/Berlin", "startDate": "2999-01-01"}
    assert runner.cloud.http("PUT", "/v1/schedules/orders/nightly", cron).status in (200, 201)


def recording(cloud: Cloud, commit: str) -> dict[str, Any]:
    items: list[dict[str, Any]] = []
    for page in cloud.clients.dynamodb.get_paginator("scan").paginate(TableName=cloud.table):
        items += page["Items"]
    queues = {
        name: [message.body for message in queue._messages]
        for name, queue in sqs_backends[ACCOUNT][REGION].queues.items()
        if "captured" not in name
    }
    executions = []
    for each in cloud.executions(status="RUNNING"):
        known = cloud.clients.stepfunctions.describe_execution(executionArn=each["executionArn"])
        machine = known["stateMachineArn"].rsplit("-", 1)[-1]
        executions.append({"machine": machine, "name": known["name"], "input": known["input"]})
    definitions = {
        machine: cloud.clients.stepfunctions.describe_state_machine(stateMachineArn=arn)["definition"]
        for machine, arn in cloud.stack.machines.items()
    }
    return {
        "commit": commit,
        "items": items,
        "queues": queues,
        "executions": executions,
        "definitions": {machine: json.loads(text) for machine, text in definitions.items()},
    }


def plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    raise TypeError(type(value))


if __name__ == "__main__":
    with moto_cloud() as cloud:
        runner = JobRunner(cloud)
        half_run(runner)
        json.dump(recording(cloud, sys.argv[1]), sys.stdout, indent=0, default=plain, sort_keys=True)
