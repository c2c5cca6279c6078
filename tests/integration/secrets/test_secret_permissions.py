"""Every role that reads secrets may do so, also where a customer's key encrypts them."""

from __future__ import annotations

from collections.abc import Iterator

import boto3
import pytest

from shardmill.engine import mill as deployment
from support.fakes.webhook_receiver import receiver
from support.moto.cloud import Cloud
from support.moto.moto_cloud import moto_cloud
from support.scenarios.job_runner import JobRunner
from support.scenarios.worker_threads import connect, wait_for_end, worker_thread

REQUEST = {"jobName": "orders", "dataToken": "d"}


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    with moto_cloud(parameters={"NotifyLoopback": "true"}) as started:
        yield started


def use_customer_key(monkeypatch: pytest.MonkeyPatch) -> None:
    arn: str = boto3.client("kms").create_key()["KeyMetadata"]["Arn"]
    monkeypatch.setenv("SHARDMILL_SECRETS_KEY", arn)
    deployment.mill.cache_clear()


@pytest.mark.parametrize(
    ("form", "key"), [("http", "kms"), ("direct", "kms"), ("lambda", "kms"), ("lambda", "parameter")]
)
def test_a_job_reads_its_secrets_and_its_end_is_signed(
    runner: JobRunner, form: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud = runner.cloud
    if key == "kms":
        use_customer_key(monkeypatch)
    boto3.client("ssm").put_parameter(Name="/shardmill/key", Value="b", Type="SecureString")
    boto3.client("secretsmanager").create_secret(Name="shardmill/pass", SecretString="c")
    private = {"A": "a", "B": "ssm:/shardmill/key", "C": "secretsmanager:shardmill/pass"}
    show = "echo $A$B$C$SHARDMILL_DATA_TOKEN"
    command = {"name": "sh", "argsArray": ["-c", show], "environ": {"private": private}}
    with receiver() as hook:
        runner.define(
            {"stepName": "a", "command": command},
            notify=[
                {"on": ["success"], "webhook": {"url": f"{hook.url}/{at}", "secret": secret}}
                for at, secret in enumerate(private.values())
            ],
            workerGroup="lambda" if form == "lambda" else "default",
            info={"auth": True},
        )
        deployment.mill.cache_clear()  # each function has a process of its own
        cloud.invoke("submit", {"id": "t1", "detail-type": "x", "source": "x", "detail": REQUEST})
        deployment.mill.cache_clear()
        if form == "lambda":
            cloud.run_until(cloud.serve_lambda_queue)
            assert wait_for_end(runner, 60)["state"] == "SUCCESS"
        else:
            with worker_thread(connect(cloud, form)):
                assert wait_for_end(runner, 60)["state"] == "SUCCESS"
        deployment.mill.cache_clear()
        cloud.deliver_job_ends()
        cloud.run_until(lambda: len(hook.requests) == 3, 60, meanwhile=cloud.serve_notify_queue)
    assert runner.task("a", 0)["stdout"] == "abcd\n"
    assert {request.path for request in hook.requests} == {"/hook/0", "/hook/1", "/hook/2"}
