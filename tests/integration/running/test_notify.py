"""Notifications: signed, delivered at least once to each receiver of a definition."""

import base64
import hashlib
import hmac
import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto.sqs.models import sqs_backends

from shardmill.aws import clients
from shardmill.aws.clock import now_ms
from shardmill.aws.secrets import Secrets, SecretUnavailable
from shardmill.engine import notify
from shardmill.engine.running.finish import announce
from shardmill.model.history import Change
from support.aws_rules.faults import Faults
from support.fakes.webhook_receiver import Receiver, WebhookRequest, receiver
from support.moto.cloud import Cloud
from support.moto.moto_cloud import moto_cloud
from support.moto.stack import ACCOUNT, REGION
from support.scenarios.job_runner import JobRunner, fail_shards

STEP = {"stepName": "a"}
SECRET = "a secret of some length"
EVERYTHING = ["failure", "suspension", "lateness", "success"]


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    with moto_cloud(parameters={"NotifyLoopback": "true"}) as started:
        yield started


@pytest.fixture
def hook() -> Iterator[Receiver]:
    with receiver() as started:
        yield started


def webhook(hook: Receiver, *on: str, secret: str = SECRET) -> dict[str, Any]:
    return {"on": list(on) or EVERYTHING, "webhook": {"url": hook.url, "secret": secret}}


def signature_is_valid(request: WebhookRequest, secret: str = SECRET) -> bool:
    """Verify the signature as docs/notify.md describes."""
    signed = (
        f"{request.headers['webhook-id']}.{request.headers['webhook-timestamp']}.".encode() + request.body
    )
    expected = base64.b64encode(hmac.new(secret.encode(), signed, hashlib.sha256).digest()).decode()
    return hmac.compare_digest(request.headers["webhook-signature"], f"v1,{expected}")


def serve(runner: JobRunner) -> int:
    return runner.cloud.serve_notify_queue()


def serve_hidden(runner: JobRunner) -> int:
    """Make hidden messages visible and serve the queue."""
    [queue] = [
        each for each in sqs_backends[ACCOUNT][REGION].queues.values() if each.name.endswith("-notify")
    ]
    for message in queue._messages:
        message.change_visibility(0)
    return serve(runner)


def test_a_webhook_receives_a_failure(runner: JobRunner, hook: Receiver) -> None:
    runner.define(STEP, notify=[webhook(hook, "failure")])
    runner.submit()
    job = runner.run(fail_shards(0))
    serve(runner)
    [request] = hook.requests
    assert signature_is_valid(request)
    assert request.headers["content-type"] == "application/cloudevents+json"
    assert request.headers["webhook-id"] == request.event["id"]
    assert abs(int(request.headers["webhook-timestamp"]) * 1000 - now_ms()) < 60_000
    event = request.event
    assert (event["specversion"], event["type"]) == ("1.0", "io.shardmill.job.ended")
    assert (event["subject"], event["source"]) == ("orders/t1", "/shardmill/shardmill-test")
    assert (event["data"]["jobId"], event["data"]["state"]) == (job["id"], "FAILED")
    assert event["time"].startswith(job["completedTime"].removesuffix("Z"))
    assert SECRET not in request.body.decode()


def test_each_receiver_gets_only_the_events_it_subscribes_to(runner: JobRunner) -> None:
    with receiver() as bad, receiver() as good, receiver() as both:
        receivers = [webhook(bad, "failure"), webhook(good, "success"), webhook(both, "failure", "success")]
        runner.define(STEP, notify=receivers)
        runner.submit("x")
        runner.run(fail_shards(0), trigger="x")
        runner.submit("y")
        runner.run(trigger="y")
        serve(runner)
        received = [[event["subject"] for event in each.events] for each in (bad, good, both)]
    assert received == [["orders/x"], ["orders/y"], ["orders/x", "orders/y"]]


def test_suspensions_lateness_and_kills_are_notified(runner: JobRunner, hook: Receiver) -> None:
    runner.define(STEP, notify=[webhook(hook)], deadlineSeconds=90, onDeadline="kill")
    runner.submit()
    for action in ("suspend", "resume", "suspend"):
        assert runner.cloud.http("POST", f"/v1/jobs/orders/t1:{action}").status == 200
    runner.tick(3)
    serve(runner)
    received = [(event["type"].rsplit(".", 1)[1], event["data"]["state"]) for event in hook.events]
    assert sorted(received) == [("ended", "KILLED"), ("late", "SUSPENDED"), *[("suspended", "SUSPENDED")] * 2]
    assert len({event["id"] for event in hook.events}) == 4


def test_a_job_without_receivers_sends_no_message(runner: JobRunner, hook: Receiver) -> None:
    runner.define(STEP, notify=[webhook(hook, "failure")])
    runner.submit()
    runner.run()
    assert "notify" not in json.dumps([event["detail"] for event in runner.cloud.published()])
    assert serve(runner) == 0


def test_events_of_another_stack_are_ignored(runner: JobRunner, hook: Receiver) -> None:
    runner.define(STEP, notify=[webhook(hook)])
    runner.submit()
    runner.run()
    [event] = [event for event in runner.cloud.published() if event["detail-type"] == "Job Ended"]
    serve(runner)
    entry = {"Source": "shardmill", "DetailType": "Job Ended"}
    foreign = json.dumps(event["detail"] | {"stack": "another"})
    runner.cloud.clients.events.put_events(Entries=[{**entry, "Detail": foreign}])
    assert serve(runner) == 0
    runner.cloud.clients.events.put_events(Entries=[{**entry, "Detail": json.dumps(event["detail"])}])
    assert serve(runner) == 2
    assert len(hook.requests) == 2
    assert len({event["id"] for event in hook.events}) == 1


@pytest.mark.parametrize("status", [500, 404, 429, 301])
def test_a_failed_delivery_is_retried_without_affecting_other_receivers(
    runner: JobRunner, hook: Receiver, status: int
) -> None:
    with receiver() as healthy:
        hook.statuses, hook.location = [status, status], healthy.url.replace("hook", "elsewhere")
        runner.define(STEP, notify=[webhook(hook), webhook(healthy)])
        runner.submit()
        runner.run()
        serve(runner)
        assert (len(hook.requests), len(healthy.requests)) == (1, 1)
        assert serve(runner) == 0  # hidden until the next attempt
        serve_hidden(runner)
        assert serve_hidden(runner) == 1
        assert serve_hidden(runner) == 0
        assert (len(hook.requests), [request.path for request in healthy.requests]) == (3, ["/hook"])
    assert len({request.headers["webhook-id"] for request in hook.requests}) == 1
    assert len({request.body for request in hook.requests}) == 1
    assert all(signature_is_valid(request) for request in hook.requests)


def test_a_delivery_that_keeps_failing_moves_to_the_dead_letter_queue(
    runner: JobRunner, hook: Receiver
) -> None:
    hook.statuses = [500] * 100
    runner.define(STEP, notify=[webhook(hook)])
    runner.submit()
    runner.run()
    for _ in range(notify.MAX_ATTEMPTS + 3):
        serve_hidden(runner)
    assert len(hook.requests) == notify.MAX_ATTEMPTS
    url = runner.cloud.environment["SHARDMILL_NOTIFY_QUEUE"] + "-dead"
    [left] = runner.cloud.clients.sqs.receive_message(QueueUrl=url)["Messages"]
    assert json.loads(left["Body"])["detail"]["trigger"] == "t1"
    assert SECRET not in left["Body"]


def test_the_retry_delay_grows_with_each_attempt() -> None:
    delays = [notify.retry_delay_seconds(receives) for receives in range(1, notify.MAX_ATTEMPTS + 1)]
    assert delays == [10, 20, 40, 80, 160, 320, 640, 900, 900, 900, 900, 0]


def test_a_topic_receives_events(runner: JobRunner, hook: Receiver) -> None:
    sns, sqs = boto3.client("sns", region_name=REGION), runner.cloud.clients.sqs
    topic = sns.create_topic(Name="shardmill-ops")["TopicArn"]
    url = sqs.create_queue(QueueName="ops")["QueueUrl"]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=f"arn:aws:sqs:{REGION}:123456789012:ops")
    runner.define(STEP, notify=[{"sns": topic}, webhook(hook)])
    runner.submit()
    runner.run(fail_shards(0))
    serve(runner)
    [message] = sqs.receive_message(QueueUrl=url)["Messages"]
    published = json.loads(message["Body"])
    assert published["Subject"] == "Job Ended: orders/t1 is FAILED"
    attributes = {name: each["Value"] for name, each in published["MessageAttributes"].items()}
    assert attributes == {"jobName": "orders", "state": "FAILED", "kind": "failure"}
    assert json.loads(published["Message"]) == hook.events[0]


def test_secrets_are_read_from_ssm_and_secrets_manager(runner: JobRunner, hook: Receiver) -> None:
    ssm, secrets_manager = (boto3.client(name, region_name=REGION) for name in ("ssm", "secretsmanager"))
    ssm.put_parameter(Name="/shardmill/hook", Value="from ssm", Type="SecureString")
    secrets_manager.create_secret(Name="shardmill/hook", SecretString="from secrets manager")
    references = ["ssm:/shardmill/hook", "secretsmanager:shardmill/hook"]
    runner.define(STEP, notify=[webhook(hook, secret=reference) for reference in references])
    runner.submit()
    runner.run()
    serve(runner)
    assert len(hook.requests) == 2
    assert {
        secret
        for request in hook.requests
        for secret in ("from ssm", "from secrets manager")
        if signature_is_valid(request, secret)
    } == {
        "from ssm",
        "from secrets manager",
    }


def test_a_delivery_is_retried_until_its_secret_exists(runner: JobRunner, hook: Receiver) -> None:
    runner.define(STEP, notify=[webhook(hook, secret="ssm:/shardmill/later")])
    runner.submit()
    runner.run()
    serve(runner)
    assert hook.requests == []
    ssm = boto3.client("ssm", region_name=REGION)
    ssm.put_parameter(Name="/shardmill/later", Value="now", Type="SecureString")
    serve_hidden(runner)
    assert signature_is_valid(hook.requests[0], "now")


@pytest.mark.parametrize("reference", ["ssm:/no/such", "secretsmanager:no-such"])
def test_a_missing_secret_is_reported_with_a_remedy(cloud: Cloud, reference: str) -> None:
    with pytest.raises(SecretUnavailable, match=f"{reference} cannot be read: .*NotFound.*SecretPrefix"):
        Secrets().resolve(reference)
    assert Secrets().resolve("plain") == "plain"


def test_the_tick_sends_a_lost_notification(runner: JobRunner, hook: Receiver, faults: Faults) -> None:
    faults.fail("events", "PutEvents", how="crash")
    runner.define(STEP, notify=[webhook(hook, "success")])
    runner.submit()
    runner.run()
    runner.tick(2)
    serve(runner)
    ids = {event["id"] for event in hook.events}
    assert len(ids) == 1
    assert 1 <= len(hook.requests) <= 2


def test_failed_deliveries_are_retried(runner: JobRunner, hook: Receiver, faults: Faults) -> None:
    runner.define(STEP, notify=[webhook(hook), webhook(hook)])
    runner.submit()
    runner.run()
    faults.fail("dynamodb", "GetItem", how="throttle")
    serve(runner)
    faults.fail("sqs", "SendMessageBatch", how="after")
    serve_hidden(runner)
    faults.clear_faults()
    while serve_hidden(runner):
        pass
    assert len(hook.requests) >= 2
    assert len({event["id"] for event in hook.events}) == 1


def test_loopback_receivers_are_rejected_unless_the_stack_allows_them(hook: Receiver) -> None:
    with moto_cloud() as cloud:
        runner = JobRunner(cloud)
        runner.define(STEP, notify=[webhook(hook)])
        runner.submit()
        runner.run()
        serve(runner)
        assert hook.requests == []


def test_a_job_keeps_the_receivers_of_its_definition_version(runner: JobRunner, hook: Receiver) -> None:
    runner.define(STEP, notify=[webhook(hook)])
    runner.submit()
    runner.cloud.run_until(lambda: runner.job()["state"] == "QUEUED")
    runner.define(STEP)
    runner.run()
    serve(runner)
    assert [event["data"]["definitionVersion"] for event in hook.events] == [1]


def test_a_repeated_notification_has_the_same_time(runner: JobRunner) -> None:
    """A change of the Job between the two calls does not affect the event."""
    runner.define(STEP, notify=[{"sns": "arn:aws:sns:us-east-1:123456789012:x"}])
    runner.submit()
    runner.run()
    job = runner.mill.jobs.find("orders", "t1")
    assert job is not None
    runner.cloud.published()
    announce(runner.mill, job, now_ms())
    later = Change(now_ms() + 1000, job.state.value, job.run).encode()
    changed = job.evolve(history=[*job.history, later], update_time=job.update_time + 5000)
    announce(runner.mill, changed, now_ms())
    first, second = (event["detail"] for event in runner.cloud.published())
    assert first == second


def test_clients_are_created_on_demand(runner: JobRunner) -> None:
    """Only a few functions send notifications; the others start without these clients."""
    assert clients.dynamodb.cache_info().currsize == 1  # type: ignore[attr-defined]
    for client in (clients.sns, clients.kms, clients.secretsmanager):
        assert client.cache_info().currsize == 0
