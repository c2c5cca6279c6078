"""The permissions in template.yaml suffice: every entry point on a laptop cloud with IAM enforced.

MiniStack requires more permissions than AWS, which are added here: actions for SQS batch calls, and task
tokens without their state machine. The bucket policy that requires TLS is removed.
"""

import json
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import pytest

from e2e.test_dev import wait_for_end
from shardmill.local.deploy import STACK, Endpoint
from support.fakes.webhook_receiver import receiver
from support.laptop import START_SECONDS, Laptop, Process
from support.waits import run_until

DRIVER = """
import sys
from pathlib import Path
from shardmill.local import cloud, deploy, dev

BATCHED = {"sqs:SendMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility"}
environment, deployable = cloud.emulator_environment, deploy.Package.deployable

def documents(properties):
    yield from properties.get("Policies", [])
    if "PolicyDocument" in properties:
        yield properties["PolicyDocument"]

def for_the_emulator(package, keys):
    template = deployable(package, keys)
    del template["Resources"]["BucketPolicy"]
    for resource in template["Resources"].values():
        for document in documents(resource.get("Properties", {})):
            allowed = [a for s in document["Statement"] for a in s["Action"] if isinstance(s["Action"], list)]
            for statement in document["Statement"]:
                if isinstance(statement["Action"], list):
                    statement["Action"] += [a + "Batch" for a in statement["Action"] if a in BATCHED]
            tokens = [action for action in allowed if action.startswith("states:SendTask")]
            if tokens:
                document["Statement"].append({"Effect": "Allow", "Action": tokens, "Resource": "*"})
    return template

cloud.emulator_environment = lambda *given: environment(*given) | {"AUTH": "true"}
deploy.Package.deployable = for_the_emulator
sys.exit(dev.run_dev(None, Path(sys.argv[1]), 0, True))
"""
NOOP = {
    "steps": [
        {"stepName": "a", "type": "noop", "sharding": 70},
        {"stepName": "b", "type": "noop", "dependentStep": "a"},
    ]
}
SHELL = {
    "workerGroup": "lambda",
    "failedRetries": 0,
    "steps": [
        {
            "stepName": "a",
            "type": "shell",
            "content": "echo hi; exit $(({{ shard.index }} % 2))",
            "sharding": 4,
            "toleratedFailures": 2,
        }
    ],
}


DATA = "shardmill-data-reference"


def with_files(laptop: Laptop, group: str) -> dict[str, Any]:
    """A definition with a secret, an output, its split, reference data from another bucket, and a join."""
    endpoint = Endpoint(laptop.aws_endpoint)
    endpoint.client("ssm").put_parameter(
        Name="/shardmill/limit", Value="100", Type="SecureString", Overwrite=True
    )
    endpoint.client("s3").create_bucket(Bucket=DATA)
    endpoint.client("s3").put_object(Bucket=DATA, Key="ref", Body=b"reference")
    private = {"LIMIT": "ssm:/shardmill/limit", "FIRST": "1"}  # the second is stored encrypted
    make = {"name": "sh", "args": "-c 'seq $FIRST $LIMIT > numbers'", "environ": {"private": private}}
    return {
        "workerGroup": group,
        "steps": [
            {"stepName": "make", "command": make, "outputs": [{"name": "numbers"}]},
            {
                "stepName": "count",
                "sharding": 3,
                "inputs": [{"name": "numbers", "origin": "make"}],
                "partition": {"input": "numbers", "index": "line"},
                "content": "wc -l < numbers > n-{{ shard.index }}",
                "outputs": [{"name": "n-{{ shard.index }}"}],
            },
            {
                "stepName": "sum",
                "inputs": [{"name": "n-*", "origin": "count"}],
                "predata": [{"name": "ref", "s3": {"bucket": DATA, "key": "ref"}}],
                "content": 'test "$(cat ref)" = reference -a $(cat n* | awk "{s+=\\$1} END {print s}") = 100',
            },
        ],
    }


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laptop]:
    folder = tmp_path_factory.mktemp("guarded")
    own = {"XDG_CACHE_HOME": str(folder / "cache")}
    process = Process([str(folder / "state")], folder / "dev.log", own, ("-c", DRIVER)).start()
    try:
        ready = json.loads(process.first_line(START_SECONDS))
        headers = {"Authorization": f"Bearer {ready['token']}"}
        with httpx.Client(headers=headers, timeout=120.0, trust_env=False) as client:
            laptop = Laptop(
                process, ready["url"], ready["token"], ready["awsEndpoint"], folder / "state", client
            )
            try:
                yield laptop
            finally:
                laptop.end_workers()
    finally:
        process.stop()


def shorten(message: str) -> str:
    found = re.search(r"[^\n\"]*not authorized to perform: \S+", message)
    return found[0] if found else message


def denials(laptop: Laptop) -> list[str]:
    logs = Endpoint(laptop.aws_endpoint).client("logs")
    group = f"/shardmill/{STACK}"
    found: list[str] = []
    for stream in logs.describe_log_streams(logGroupName=group)["logStreams"]:
        with suppress(logs.exceptions.ResourceNotFoundException):  # only the latest streams are kept
            events = logs.get_log_events(logGroupName=group, logStreamName=stream["logStreamName"])["events"]
            found += [shorten(event["message"]) for event in events if "AccessDenied" in event["message"]]
    return found


def submit(laptop: Laptop, name: str, definition: dict[str, Any]) -> None:
    assert laptop.request("PUT", f"/v1/definitions/{name}", definition).is_success
    assert laptop.request("POST", "/v1/jobs", {"jobName": name, "trigger": "t"}).status_code == 202


def explain(laptop: Laptop, name: str) -> tuple[list[str], list[str]]:
    return denials(laptop), laptop.request("GET", f"/v1/jobs/{name}/t:explain").json()["sentences"]


def test_permissions_are_enforced(guarded: Laptop) -> None:
    """The other tests of this file depend on it."""
    with pytest.raises(Exception, match=r"(?i)invalid|denied|not recognized"):
        unknown_user(guarded, "AKIAIOSFODNN7EXAMPLE", "no").list_tables()


def unknown_user(laptop: Laptop, key: str, secret: str) -> Any:
    import boto3

    return boto3.client(
        "dynamodb",
        endpoint_url=laptop.aws_endpoint,
        region_name="us-east-1",
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        aws_session_token=None,
    )


def test_a_worker_with_a_token_runs_tasks_and_transfers_files(guarded: Laptop) -> None:
    submit(guarded, "http", NOOP)
    worker = guarded.worker("--group", "default", "--slots", "10")
    assert wait_for_end(guarded, "http", "t") == "SUCCESS", (denials(guarded), worker.read_log())
    submit(guarded, "http-files", with_files(guarded, "default"))
    assert wait_for_end(guarded, "http-files", "t") == "SUCCESS", explain(guarded, "http-files")
    worker.stop()
    assert denials(guarded) == []
    log = worker.read_log()
    assert "SQS cannot be reached" not in log, "it waits at SQS, with the permissions of the API's role"
    assert "X-Amz-" not in log


def test_a_worker_waits_at_sqs_while_no_function_runs(guarded: Laptop) -> None:
    assert guarded.request("PUT", "/v1/groups/waits", {}).is_success
    worker = guarded.worker("--group", "waits", "--slots", "2")
    run_until(lambda: guarded.request("GET", "/v1/workers?group=waits").json()["items"], 60)
    time.sleep(2)  # it polls now
    before = invocations(guarded, "lease")
    time.sleep(3)
    assert invocations(guarded, "lease") == before
    submit(guarded, "waits", NOOP | {"workerGroup": "waits"})
    assert wait_for_end(guarded, "waits", "t") == "SUCCESS", (denials(guarded), worker.read_log())
    worker.stop()
    assert denials(guarded) == []


def invocations(laptop: Laptop, function: str) -> int:
    """The log lines of a function so far; each invocation writes one at least."""
    logs = Endpoint(laptop.aws_endpoint).client("logs")
    group = f"/shardmill/{STACK}"
    found = 0
    for stream in logs.describe_log_streams(logGroupName=group)["logStreams"]:
        with suppress(logs.exceptions.ResourceNotFoundException):
            events = logs.get_log_events(logGroupName=group, logStreamName=stream["logStreamName"])["events"]
            found += sum(f"{STACK}-{function}" in event["message"] for event in events)
    return found


def test_the_lambda_worker_runs_tasks_and_transfers_files(guarded: Laptop) -> None:
    submit(guarded, "shell", SHELL)
    assert wait_for_end(guarded, "shell", "t") == "SUCCESS", denials(guarded)
    logs = guarded.request("GET", "/v1/jobs/shell/t/steps/a/tasks/0/logs?stream=stdout")
    assert "hi" in logs.text
    submit(guarded, "lambda-files", with_files(guarded, "lambda"))
    assert wait_for_end(guarded, "lambda-files", "t") == "SUCCESS", explain(guarded, "lambda-files")
    assert denials(guarded) == []


def test_a_direct_worker_needs_only_the_worker_policy(guarded: Laptop) -> None:
    iam = Endpoint(guarded.aws_endpoint).client("iam")
    session = json.loads((guarded.state / "dev.json").read_text())
    iam.create_user(UserName="worker")
    iam.attach_user_policy(UserName="worker", PolicyArn=session["outputs"]["WorkerPolicyArn"])
    key = iam.create_access_key(UserName="worker")["AccessKey"]
    assert guarded.request("PUT", "/v1/groups/direct", {}).is_success
    submit(guarded, "direct", NOOP | {"workerGroup": "direct"})
    from shardmill.client.dev_session import Session
    from shardmill.local.environment import session_environment

    environ = session_environment(Session(**session)) | {
        "AWS_ACCESS_KEY_ID": key["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"],
    }
    worker = Process(
        ["worker", "--group", "direct", "--slots", "10", "--aws"], guarded.state / "w.log", environ
    )
    worker.start()
    try:
        assert wait_for_end(guarded, "direct", "t") == "SUCCESS", worker.read_log()
        submit(guarded, "direct-files", with_files(guarded, "direct"))
        assert wait_for_end(guarded, "direct-files", "t") == "SUCCESS", explain(guarded, "direct-files")
    finally:
        worker.stop()
    assert "AccessDenied" not in worker.read_log()


def test_submit_tick_and_group_changes_are_permitted(guarded: Laptop) -> None:
    functions = Endpoint(guarded.aws_endpoint).client("lambda")
    assert guarded.request("PUT", "/v1/definitions/shell", SHELL).is_success
    request = {"detail-type": "any", "source": "mine", "detail": {"jobName": "shell", "trigger": "e"}}
    assert "FunctionError" not in functions.invoke(
        FunctionName=f"{STACK}-submit", Payload=json.dumps(request).encode()
    )
    assert wait_for_end(guarded, "shell", "e") == "SUCCESS"
    from shardmill.local import emulator_quirks

    emulator_quirks.tick_now(functions, STACK)
    assert guarded.request("PUT", "/v1/groups/extra", {}).is_success
    assert guarded.request("DELETE", "/v1/groups/extra").is_success
    assert denials(guarded) == []


def test_a_failed_event_is_kept_and_redriven(guarded: Laptop) -> None:
    functions = Endpoint(guarded.aws_endpoint).client("lambda")
    event = {"id": "e-1", "detail-type": "any", "source": "mine", "detail": {"jobName": "later"}}
    payload = json.dumps(event).encode()
    functions.invoke(FunctionName=f"{STACK}-submit", InvocationType="Event", Payload=payload)
    [letter] = run_until(lambda: guarded.request("GET", "/v1/dead-letters").json()["items"], 60)
    assert "there is no definition named 'later'" in letter["reason"]
    assert guarded.request("PUT", "/v1/definitions/later", NOOP).is_success
    assert guarded.request("POST", f"/v1/dead-letters/{letter['id']}:redrive").is_success
    run_until(lambda: guarded.request("GET", "/v1/jobs/later/e-1").is_success, 30)
    assert guarded.request("GET", "/v1/dead-letters").json()["items"] == []
    assert denials(guarded) == []


def lease_one(laptop: Laptop, worker: str) -> dict[str, Any]:
    """Lease a task; a busy machine may need several long polls."""
    request = {"workerId": worker, "max": 1, "waitSeconds": 20}
    for _ in range(6):
        items: list[dict[str, Any]] = laptop.request("POST", "/v1/work:lease", request).json()["items"]
        if items:
            return items[0]
    raise AssertionError(f"no task came for worker {worker}")


def test_a_lost_task_is_leased_again_over_http(guarded: Laptop) -> None:
    group = "losing"
    assert guarded.request("PUT", f"/v1/groups/{group}", {"leaseSeconds": 10}).is_success
    first, second = (
        guarded.request("POST", "/v1/workers", {"name": name, "groups": [group]}).json()["id"]
        for name in ("losing-1", "losing-2")
    )
    definition = {"steps": [{"stepName": "a", "failFast": True}], "workerGroup": group}
    submit(guarded, "losing", definition)
    first_lease = lease_one(guarded, first)
    assert first_lease["attempt"] == 1
    second_lease = lease_one(guarded, second)
    assert second_lease["attempt"] == 2
    result = {"taskId": second_lease["taskId"], "attempt": 2, "outcome": "failed-permanent", "stderr": "no"}
    report = {"workerId": second, "results": [result]}
    assert guarded.request("POST", "/v1/work:report", report).is_success
    assert wait_for_end(guarded, "losing", "t") == "FAILED"
    assert denials(guarded) == []


def test_stopping_an_execution_fails_its_job(guarded: Laptop) -> None:
    assert guarded.request("PUT", "/v1/groups/unused", {}).is_success
    submit(guarded, "stopped", {"steps": [{"stepName": "a"}], "workerGroup": "unused"})
    machines = Endpoint(guarded.aws_endpoint).client("stepfunctions")
    session = json.loads((guarded.state / "dev.json").read_text())
    step_machine = session["outputs"]["StepMachineArn"]
    job_id = guarded.request("GET", "/v1/jobs/stopped/t").json()["id"]

    def running() -> list[str]:
        found = machines.list_executions(stateMachineArn=step_machine, statusFilter="RUNNING")["executions"]
        return [each["executionArn"] for each in found if each["name"].startswith(job_id)]

    machines.stop_execution(executionArn=run_until(running, 20)[0])
    assert wait_for_end(guarded, "stopped", "t") == "FAILED"
    assert denials(guarded) == []


def tick_at(laptop: Laptop, time: str) -> dict[str, Any]:
    """Invoke the tick's function for a given time."""
    event = {
        "version": "0",
        "id": "x",
        "detail-type": "Scheduled Event",
        "source": "aws.events",
        "time": time,
    }
    event |= {"account": "000000000000", "region": "us-east-1", "resources": [], "detail": {}}  # type: ignore[dict-item]
    functions = Endpoint(laptop.aws_endpoint).client("lambda")
    answer = functions.invoke(FunctionName=f"{STACK}-tick", Payload=json.dumps(event).encode())
    counts: dict[str, Any] = json.loads(answer["Payload"].read())
    assert "FunctionError" not in answer, counts
    return counts


def test_schedules_dependencies_and_a_backfill_are_permitted(guarded: Laptop) -> None:
    """The tick fires a schedule, the end of its Job starts a child, and a backfill runs."""
    parent = {"workerGroup": "lambda", "concurrency": 2, "steps": [{"stepName": "a"}]}
    assert guarded.request("PUT", "/v1/definitions/parent", parent).is_success
    child = {"workerGroup": "lambda", "steps": [{"stepName": "a"}], "dependencies": ["parent"]}
    assert guarded.request("PUT", "/v1/definitions/child", child).is_success
    assert guarded.request("PUT", "/v1/schedules/parent/s", {"at": "2050-01-01T00:00:00Z"}).is_success
    assert tick_at(guarded, "2050-01-01T00:00:00Z")["fired"] == 1
    assert wait_for_end(guarded, "parent", "20500101T000000Z-s") == "SUCCESS", denials(guarded)
    run_until(lambda: guarded.request("GET", "/v1/jobs/child/20500101T000000Z").is_success, 30)
    assert wait_for_end(guarded, "child", "20500101T000000Z") == "SUCCESS", denials(guarded)
    daily = {"cron": "0 0 * * *", "overlap": "queue"}
    assert guarded.request("PUT", "/v1/schedules/parent/daily", daily).is_success
    request = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-04T00:00:00Z", "parallel": 2}
    assert guarded.request("POST", "/v1/schedules/parent/daily:backfill", request).status_code == 202
    path = "/v1/schedules/parent/daily/backfills/1"
    run_until(lambda: guarded.request("GET", path).json()["state"] == "DONE", 60)
    assert guarded.request("GET", path).json()["success"] == 3
    assert denials(guarded) == []


def test_a_replaced_job_is_killed(guarded: Laptop) -> None:
    assert guarded.request("PUT", "/v1/groups/idle", {}).is_success
    definition = {"workerGroup": "idle", "steps": [{"stepName": "a"}]}
    assert guarded.request("PUT", "/v1/definitions/replaced", definition).is_success
    path = "/v1/schedules/replaced/s"
    assert guarded.request("PUT", path, {"cron": "0 0 1 1 *", "overlap": "replace"}).is_success
    first, second = (
        guarded.request("POST", f"{path}:fire", {"dataTime": f"2026-01-0{day}T00:00:00Z"}).json()["trigger"]
        for day in (1, 2)
    )
    assert wait_for_end(guarded, "replaced", first) == "KILLED", denials(guarded)
    assert guarded.request("GET", f"/v1/jobs/replaced/{second}").json()["state"] in ("INIT", "QUEUED")
    assert denials(guarded) == []


def test_many_schedules_due_together_go_through_the_fire_queue(guarded: Laptop) -> None:
    waiting = {"steps": [{"stepName": "a"}], "dependencies": ["missing"]}
    assert guarded.request("PUT", "/v1/definitions/many", waiting).is_success
    for number in range(101):
        made = guarded.request("PUT", f"/v1/schedules/many/n{number}", {"at": "2060-01-01T00:00:00Z"})
        assert made.is_success
    assert tick_at(guarded, "2060-01-01T00:00:00Z")["handed"] >= 1

    def pending() -> list[str]:
        items = guarded.request("GET", "/v1/schedules/many?limit=1000").json()["items"]
        return [item["scheduleId"] for item in items if item["nextTime"]]

    run_until(lambda: not pending(), 60)
    assert denials(guarded) == []


def test_control_actions_are_permitted(guarded: Laptop) -> None:
    """All control actions, with the permissions of the API's function."""
    assert guarded.request("PUT", "/v1/groups/quiet", {}).is_success
    submit(guarded, "controlled", NOOP | {"workerGroup": "quiet"})
    path = "/v1/jobs/controlled/t"

    def act(action: str, body: dict[str, Any] | None = None) -> str:
        answer = guarded.request("POST", f"{path}:{action}", body)
        assert answer.is_success, (answer.text, denials(guarded))
        return str(answer.json()["state"])

    run_until(lambda: guarded.request("GET", path).json()["steps"][0]["state"] == "READY", 30)
    assert act("suspend") == "SUSPENDED"
    assert act("resume") == "QUEUED"
    act("kill", {"stepName": "a", "index": 3})
    act("force", {"state": "SUCCESS", "stepName": "a", "index": 4})
    assert act("kill") == "KILLED"
    assert act("rerun") == "INIT"
    run_until(lambda: guarded.request("GET", path).json()["state"] == "QUEUED", 30)
    assert act("kill", {"stepName": "b"}) == "QUEUED"
    assert act("force", {"state": "SUCCESS"}) == "SUCCESS"
    assert guarded.request("GET", f"{path}:explain").is_success
    assert guarded.request("DELETE", f"{path}?full=true").status_code == 204
    assert denials(guarded) == []


def test_notifications_are_permitted(guarded: Laptop) -> None:
    """Webhooks with secrets in SSM and in Secrets Manager, and an SNS topic."""
    endpoint = Endpoint(guarded.aws_endpoint)
    secret = "webhook-secret"
    endpoint.client("ssm").put_parameter(Name="/shardmill/hook", Value=secret, Type="SecureString")
    endpoint.client("secretsmanager").create_secret(Name="shardmill/hook", SecretString=secret)
    topic = endpoint.client("sns").create_topic(Name="shardmill-ops")["TopicArn"]
    url = endpoint.client("sqs").create_queue(QueueName="ops")["QueueUrl"]
    queue = endpoint.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    arn = queue["Attributes"]["QueueArn"]
    policy = {"Effect": "Allow", "Principal": "*", "Action": "sqs:SendMessage", "Resource": arn}
    endpoint.client("sqs").set_queue_attributes(
        QueueUrl=url, Attributes={"Policy": json.dumps({"Version": "2012-10-17", "Statement": [policy]})}
    )
    endpoint.client("sns").subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    with receiver() as hook:
        references = ["ssm:/shardmill/hook", "secretsmanager:shardmill/hook"]
        notify = [{"on": ["failure"], "webhook": {"url": hook.url, "secret": each}} for each in references]
        definition = {"steps": [{"stepName": "a"}], "notify": [*notify, {"sns": topic}]}
        submit(guarded, "noticed", definition | {"deadlineSeconds": 600, "onDeadline": "kill"})
        assert tick_at(guarded, "2050-01-02T00:00:00Z")["late"] == 1
        run_until(lambda: len(hook.requests) >= 2, 60)
    assert {request.event["data"]["state"] for request in hook.requests} == {"KILLED"}

    def receive_subjects() -> list[str]:
        messages = endpoint.client("sqs").receive_message(QueueUrl=url, MaxNumberOfMessages=10)
        return [json.loads(message["Body"])["Subject"] for message in messages.get("Messages", [])]

    subjects: list[str] = []
    run_until(lambda: subjects.extend(receive_subjects()) or len(subjects) >= 2, 60)  # type: ignore[func-returns-value]
    assert sorted(subject.split(":")[0] for subject in subjects) == ["Job Ended", "Job Late"]
    assert denials(guarded) == []
