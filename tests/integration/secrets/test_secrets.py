"""Secrets from every input are found only where they are used."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any

import boto3
import pytest

from shardmill.aws.sealing import Sealer
from shardmill.aws.secrets import SecretAccess, Secrets, SecretUnavailable
from shardmill.engine import mill as deployment
from shardmill.engine.files.held_attempt import get_held_attempt
from shardmill.engine.files.presign import prepare
from shardmill.engine.private_values import open_data_token
from shardmill.model.secrets.secret import is_sealed
from support.aws_rules.call import Call
from support.aws_rules.faults import Rerun, everywhere_once
from support.fakes.webhook_receiver import receiver
from support.moto.cloud import Cloud
from support.moto.moto_cloud import moto_cloud
from support.paths import PROJECT
from support.scenarios.file_worker import FileWorker, place
from support.scenarios.job_runner import JobRunner
from support.scenarios.secret_search import recorded_answers, recorded_calls, rows_with, stored_elsewhere
from support.scenarios.worker_threads import connect, wait_for_end, worker_thread

PRIVATE, SIGNING, PARAMETER, MANAGED = "pr1vate-5f21", "s1gning-9a02", "par4meter-77c1", "man4ged-30be"
TOKENS = [f"t0ken-{entry}-c4d1" for entry in ("request", "batch", "event", "dead-letter")]
PLANTED = [PRIVATE, SIGNING, PARAMETER, MANAGED, *TOKENS]
SHOW = 'printf %s "$A $B $C $SHARDMILL_DATA_TOKEN" | sha256sum | cut -c1-8; exit 3'
AUTH = {"info": {"auth": True}}
COMMAND = {"name": "x", "environ": {"private": {"KEY": PRIVATE}}}


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    with moto_cloud(parameters={"NotifyLoopback": "true"}) as started:
        yield started


def create_kms_key(monkeypatch: pytest.MonkeyPatch) -> str:
    arn: str = boto3.client("kms").create_key()["KeyMetadata"]["Arn"]
    monkeypatch.setenv("SHARDMILL_SECRETS_KEY", arn)
    deployment.mill.cache_clear()
    return arn


def define_with_secrets(runner: JobRunner, url: str) -> None:
    boto3.client("ssm").put_parameter(Name="/shardmill/key", Value=PARAMETER, Type="SecureString")
    boto3.client("secretsmanager").create_secret(Name="shardmill/pass", SecretString=MANAGED)
    private = {"A": PRIVATE, "B": "ssm:/shardmill/key", "C": "secretsmanager:shardmill/pass"}
    command = {"name": "sh", "argsArray": ["-c", SHOW], "environ": {"private": private}}
    webhook = {"on": ["failure"], "webhook": {"url": url, "secret": SIGNING}}
    runner.define({"stepName": "a", "command": command}, notify=[webhook], **AUTH)


def an_event(name: str, token: str) -> dict[str, Any]:
    detail = {"jobName": name, "dataToken": token}
    return {"version": "0", "id": token[::-1], "detail-type": "x", "source": "shop", "detail": detail}


def put_into_dead_letters(cloud: Cloud, event: dict[str, Any]) -> None:
    context = {"condition": "RetriesExhausted", "requestId": "r"}
    record = {"requestContext": context, "requestPayload": event, "responsePayload": {"errorType": "x"}}
    url = cloud.environment["SHARDMILL_SUBMIT_DEAD_QUEUE"]
    cloud.clients.sqs.send_message(QueueUrl=url, MessageBody=json.dumps(record))


def read_everything(runner: JobRunner, letter_id: str) -> int:
    """Request every GET route of the API; return how many were found."""
    names = {"job_name": "orders", "trigger": "t1", "step_name": "a", "index": "0", "schedule_id": "s1"}
    names |= {"name": "default", "worker_id": runner.worker.row.id, "letter_id": letter_id}
    paths = json.loads((PROJECT / "layers/core/python/shardmill/api/openapi.json").read_text())["paths"]
    found = 0
    for path, operations in paths.items():
        if "get" in operations:
            url = re.sub(r"\{(\w+)\}", lambda match: names.get(match[1], "1"), path)
            status = runner.cloud.http("GET", url).status
            assert status < 500, url
            found += status == 200
    return found


def test_secrets_are_found_nowhere_in_plain_text(
    runner: JobRunner,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    cloud = runner.cloud
    with receiver() as hook:
        define_with_secrets(runner, hook.url)
        put_into_dead_letters(cloud, an_event("orders", TOKENS[3]))
        with recorded_calls() as calls, recorded_answers() as answers:
            document = cloud.http("GET", "/v1/definitions/orders").json
            assert cloud.http("PUT", "/v1/definitions/orders", document).status == 200
            schedule = {"cron": "0 2 * * *", "params": {"day": "x"}}
            assert cloud.http("PUT", "/v1/schedules/orders/s1", schedule).status == 201
            runner.submit(dataToken=TOKENS[0])
            batch = {"requests": [{"jobName": "orders", "trigger": "t2", "dataToken": TOKENS[1]}]}
            assert cloud.http("POST", "/v1/jobs:batch", batch).status in (200, 202, 207)
            cloud.invoke("submit", an_event("orders", TOKENS[2]))
            with worker_thread(connect(cloud, "http")):
                assert wait_for_end(runner)["state"] == "FAILED"
                cloud.run_until(lambda: runner.ended("t2"), 20)
            cloud.deliver_job_ends()
            cloud.serve_notify_queue()
            [letter] = cloud.http("GET", "/v1/dead-letters").json["items"]
            shown = cloud.http("GET", f"/v1/dead-letters/{letter['id']}").json
            assert shown["payload"]["detail"]["dataToken"] == "********"
            assert read_everything(runner, letter["id"]) > 25
    values = f"{PRIVATE} {PARAMETER} {MANAGED} {TOKENS[0]}"
    assert runner.task("a", 0)["stdout"] == hashlib.sha256(values.encode()).hexdigest()[:8] + "\n"
    elsewhere, logged = stored_elsewhere(runner), "".join(capfd.readouterr()) + caplog.text
    for secret in PLANTED:
        assert rows_with(runner, secret) == []
        assert secret not in elsewhere
        assert secret not in logged
        assert {operation for operation, text in calls if secret in text} == set()
        assert {path for path, text in answers if secret in text} <= {"/v1/work:urls"}


def dead_events(cloud: Cloud) -> str:
    url = cloud.environment["SHARDMILL_SUBMIT_DEAD_QUEUE"]
    messages = cloud.clients.sqs.receive_message(QueueUrl=url, VisibilityTimeout=0).get("Messages", [])
    return "".join(message["Body"] for message in messages)


@pytest.mark.parametrize("direct", [False, True], ids=["event", "request"])
@pytest.mark.parametrize("key", ["parameter", "kms"])
def test_an_event_that_fails_is_queued_and_kept_without_its_data_token(
    runner: JobRunner, monkeypatch: pytest.MonkeyPatch, key: str, direct: bool
) -> None:
    cloud = runner.cloud
    if key == "kms":
        create_kms_key(monkeypatch)
    event = an_event("orders", TOKENS[2])
    cloud.invoke_async("submit", event["detail"] if direct else event)
    cloud.run_until(lambda: dead_events(cloud))
    assert TOKENS[2] not in dead_events(cloud)
    sent = [json.dumps(given) for name, given in cloud.functions.invoked if name == "submit"]
    assert [TOKENS[2] in each for each in sent] == [True, False, False, False]

    runner.define({"stepName": "a", "content": ":"}, **AUTH)
    [letter] = cloud.http("GET", "/v1/dead-letters").json["items"]
    assert letter["reason"].startswith("DefinitionNotFound")
    assert cloud.http("POST", f"/v1/dead-letters/{letter['id']}:redrive").status == 200
    [job] = cloud.run_until(lambda: cloud.http("GET", "/v1/jobs").json["items"])
    assert direct or job["trigger"] == event["id"]
    [lease] = runner.take(1)
    prepared = FileWorker(runner).ask(lease, prepare=True)["prepared"]
    assert prepared["environ"] == {"SHARDMILL_DATA_TOKEN": TOKENS[2]}


@pytest.mark.parametrize("token", [TOKENS[2], [TOKENS[2]], "sealed:1:forged", "********", None], ids=str)
def test_an_event_that_fails_is_queued_again_once(runner: JobRunner, token: Any) -> None:
    event = an_event("orders", TOKENS[2]) | {"id": "e1"}
    event["detail"]["dataToken"] = token
    runner.cloud.invoke_async("submit", event)
    runner.cloud.run_until(lambda: dead_events(runner.cloud))
    assert TOKENS[2] not in dead_events(runner.cloud)
    assert [name for name, _ in runner.cloud.functions.invoked].count("submit") in (3, 4)


def test_an_event_with_a_data_token_submits_one_job_when_any_call_fails() -> None:
    def of_submit(call: Call) -> bool:
        return call.service in ("dynamodb", "ssm", "lambda", "stepfunctions")

    runs = everywhere_once(ways=("before", "after"), only=of_submit)
    assert sum(_submits_one_job(run) for run in runs) >= 10


def _submits_one_job(run: Rerun) -> bool:
    with run, moto_cloud() as cloud:
        runner = JobRunner(cloud)
        runner.define({"stepName": "a", "content": ":"}, **AUTH)
        with run.armed():
            cloud.invoke_async("submit", an_event("orders", TOKENS[2]))
        cloud.run_until(lambda: cloud.http("GET", "/v1/jobs").json["items"])
        [job] = cloud.http("GET", "/v1/jobs").json["items"]
        assert job["trigger"] == TOKENS[2][::-1]
        stored = runner.mill.data_tokens.get(job["id"]) or ""
        assert open_data_token(runner.mill, job["id"], stored) == TOKENS[2]
        assert TOKENS[2] not in dead_events(cloud)
    return True


def test_a_redriven_event_gets_its_data_token_back(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "content": ":"}, **AUTH)
    event = an_event("orders", TOKENS[3])
    put_into_dead_letters(runner.cloud, event)
    [letter] = runner.cloud.http("GET", "/v1/dead-letters").json["items"]
    assert runner.cloud.http("POST", f"/v1/dead-letters/{letter['id']}:redrive").status == 200
    runner.cloud.run_until(lambda: runner.cloud.http("GET", "/v1/jobs").json["items"])
    [lease] = runner.take(1)
    prepared = FileWorker(runner).ask(lease, prepare=True)["prepared"]
    assert prepared["environ"] == {"SHARDMILL_DATA_TOKEN": TOKENS[3]}


@pytest.mark.parametrize("token", [[TOKENS[3]], {"token": TOKENS[3]}, [[TOKENS[3]]]], ids=str)
def test_a_data_token_of_another_type_is_not_kept(runner: JobRunner, token: Any) -> None:
    """The event was rejected for its type, and is kept as a dead letter."""
    put_into_dead_letters(
        runner.cloud, an_event("orders", TOKENS[3]) | {"detail": {"dataToken": token}, "id": "e1"}
    )
    [letter] = runner.cloud.http("GET", "/v1/dead-letters").json["items"]
    shown = runner.cloud.http("GET", f"/v1/dead-letters/{letter['id']}")
    assert shown.json["payload"]["detail"] == {"dataToken": "********"}
    assert rows_with(runner, TOKENS[3]) == []
    assert TOKENS[3] not in stored_elsewhere(runner) + shown.text


def test_only_the_holder_of_a_task_gets_its_private_values(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "command": COMMAND})
    runner.submit()
    [lease] = runner.take(1)
    assert lease.prepare
    assert PRIVATE not in lease.model_dump_json()
    worker = FileWorker(runner)
    assert worker.ask(lease, prepare=True)["prepared"]["environ"] == {"KEY": PRIVATE}
    assert worker.ask(lease, 409, worker="other", prepare=True)["code"] == "stale-attempt"


@pytest.mark.parametrize("key", ["parameter", "kms"])
def test_a_job_costs_one_decryption_per_process_and_none_without_secrets(
    runner: JobRunner, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if key == "kms":
        create_kms_key(monkeypatch)
    runner.define({"stepName": "a", "sharding": 3, "command": COMMAND})
    runner.define({"stepName": "a"}, name="plain")
    runner.submit()
    runner.submit(name="plain")
    deployment.mill.cache_clear()
    leases = runner.take(4)
    process = deployment.mill()
    with recorded_calls() as calls:
        for lease in leases:
            if lease.prepare:
                held = get_held_attempt(process, runner.worker.row.id, lease.task_id, 1, 1)
                assert prepare(process, held).environ == {"KEY": PRIVATE}
    assert sum(lease.prepare for lease in leases) == 3
    assert [name for name, _ in calls if name in ("GetParameter", "Decrypt", "GenerateDataKey")] == [
        "Decrypt" if key == "kms" else "GetParameter"
    ]


def test_values_that_an_earlier_release_stored_plainly_are_still_used(runner: JobRunner) -> None:
    document = {"jobName": "orders", "steps": [{"stepName": "a", "type": "command", "command": COMMAND}]}
    runner.mill.definitions.save("orders", document, user="me", now=1, expected=None, graph=None)
    runner.submit()
    [lease] = runner.take(1)
    assert lease.environ["KEY"] == PRIVATE
    shown = runner.cloud.http("GET", "/v1/definitions/orders").json
    assert runner.cloud.http("PUT", "/v1/definitions/orders", shown).status == 200
    saved = runner.mill.definitions.find("orders")
    assert saved is not None
    assert is_sealed(saved.document["steps"][0]["command"]["environ"]["private"]["KEY"])


def test_a_sealed_value_can_be_decrypted_only_in_its_own_place(
    runner: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after the stack got a KMS key, or a new version of the key in the parameter."""
    settings = runner.mill.settings
    arn = create_kms_key(monkeypatch)
    old, new = Sealer(settings), Sealer(settings._replace(secrets_key=arn))
    here, there = {"definition": "a"}, {"definition": "b"}
    texts = [*old.seal([PRIVATE], here), *new.seal([PRIVATE], here)]
    boto3.client("ssm").put_parameter(
        Name=settings.key_parameter, Value="A" * 43 + "=", Type="SecureString", Overwrite=True
    )
    rotated = Sealer(settings)
    texts += rotated.seal([PRIVATE], here)
    for text in texts:
        fresh = Sealer(settings)
        assert fresh.open(text, here) == PRIVATE
        for wrong, context in ((text, there), (text[:-8] + "AAAAAAA=", here), (text[:12], here)):
            with pytest.raises(SecretUnavailable):
                Sealer(settings).open(wrong, context)


def test_a_document_cannot_contain_sealed_values(runner: JobRunner) -> None:
    [sealed] = runner.mill.sealer.seal(["x"], {"definition": "orders"})
    command = {"name": "x", "environ": {"private": {"KEY": sealed}}}
    document = {"jobName": "orders", "steps": [{"stepName": "a", "command": command}]}
    for method, path in (("PUT", "/v1/definitions/orders"), ("POST", "/v1/definitions:validate")):
        answer = runner.cloud.http(method, path, document)
        faults = answer.json["faults"]
        assert [each["pointer"] for each in faults] == ["/steps/0/command/environ/private/KEY"], answer


@pytest.mark.parametrize(
    ("value", "valid"),
    [
        ("ssm:my pass!", False),
        ("secretsmanager:my*pass", False),
        ("ssm:/shardmill/key:2", True),
        ("ssm:", False),
        ("ssm:/shardmill/{{ params.key }} !", False),
        ("ssm:/shardmill/{{ params.key }}/a", True),
        ("SSM:my pass!", True),
    ],
)
def test_a_value_that_only_begins_like_a_reference_is_rejected(
    runner: JobRunner, value: str, valid: bool
) -> None:
    """It would be stored in plain text, as the names of secrets are."""
    command = {"name": "x", "environ": {"private": {"KEY": value}}}
    document = {"jobName": "orders", "params": {"key": "k"}, "steps": [{"stepName": "a", "command": command}]}
    for method, path in (("POST", "/v1/definitions:validate"), ("PUT", "/v1/definitions/orders")):
        answer = runner.cloud.http(method, path, document)
        found = [(each["pointer"], each["code"]) for each in answer.json.get("faults", [])]
        assert found == ([] if valid else [("/steps/0/command/environ/private/KEY", "bad-reference")])
    assert bool(rows_with(runner, value)) is (valid and value.startswith("ssm:"))


def test_without_its_key_a_save_fails_and_changes_nothing(runner: JobRunner) -> None:
    boto3.client("ssm").delete_parameter(Name=runner.mill.settings.key_parameter)
    deployment.mill.cache_clear()
    document = {"jobName": "orders", "steps": [{"stepName": "a", "command": COMMAND}]}
    answer = runner.cloud.http("PUT", "/v1/definitions/orders", document)
    assert answer.status == 503
    assert runner.mill.definitions.find("orders") is None
    plain = {"jobName": "orders", "steps": [{"stepName": "a"}]}
    assert runner.cloud.http("PUT", "/v1/definitions/orders", plain).status == 201


def test_without_its_key_a_submit_leaves_neither_job_nor_files(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "inputs": [{"name": "in"}], "content": "cat in"}, **AUTH)
    worker, data = FileWorker(runner), b"data"
    body = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    upload = runner.cloud.http("POST", "/v1/uploads", body).json
    worker.s3.put_object(**place(upload["url"]), Body=data)

    def objects() -> list[str]:
        return [each["Key"] for each in worker.s3.list_objects_v2(Bucket=runner.cloud.bucket)["Contents"]]

    before = objects()
    boto3.client("ssm").delete_parameter(Name=runner.mill.settings.key_parameter)
    deployment.mill.cache_clear()
    files = [{"name": "in", "upload": upload["upload"], "size": len(data)}]
    request = {"jobName": "orders", "trigger": "t1", "dataToken": TOKENS[0], "files": files}
    assert runner.cloud.http("POST", "/v1/jobs", request).status == 503
    assert runner.cloud.http("GET", "/v1/jobs").json["items"] == []
    assert objects() == before


@pytest.mark.parametrize(
    ("reference", "app", "allowed"),
    [
        ("ssm:/shardmill/finance/key", "finance", True),
        ("secretsmanager:shardmill/finance/key", "finance", True),
        ("ssm:/shardmill/shared/key", "", True),
        ("ssm:/shardmill/finance/key", "sales", False),
        ("ssm:/shardmill/finance/key", "", False),
        ("ssm:/shardmill/key", "finance", False),
        ("ssm:/shardmill/finances/key", "finance", False),
        ("ssm:arn:aws:ssm:eu-west-1:1:parameter/shardmill/finance/key", "finance", False),
    ],
)
def test_references_can_be_limited_to_the_application(reference: str, app: str, allowed: bool) -> None:
    access = SecretAccess("/shardmill-keys/s", "shardmill", by_application=True)
    assert access.allows(reference, app) is allowed


@pytest.mark.parametrize(
    "name", ["/shardmill-keys/s", "shardmill-keys/s", "arn:x:parameter/shardmill-keys/s:1"]
)
def test_no_definition_can_refer_to_the_key(name: str) -> None:
    with pytest.raises(SecretUnavailable, match="the key that encrypts"):
        Secrets(access=SecretAccess("/shardmill-keys/s")).resolve(f"ssm:{name}")


def test_a_job_of_another_application_cannot_read_a_secret(
    runner: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHARDMILL_SECRETS_BY_APPLICATION", "true")
    deployment.mill.cache_clear()
    boto3.client("ssm").put_parameter(Name="/shardmill/finance/key", Value=PARAMETER, Type="SecureString")
    command = {"name": "x", "environ": {"private": {"KEY": "ssm:/shardmill/finance/key"}}}
    worker = FileWorker(runner)
    for name, app, status in (("mine", "finance", 200), ("theirs", "sales", 409)):
        runner.define({"stepName": "a", "command": command}, name=name, appName=app)
        runner.submit(name=name)
        [lease] = runner.take(1)
        answer = worker.ask(lease, status, prepare=True)
        assert ("prepared" in answer) is (status == 200), answer
