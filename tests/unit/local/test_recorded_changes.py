"""What MiniStack's services record is what they need to be the same again."""

import asyncio
import copy
import json
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from shardmill.local import emulator_quirks
from shardmill.local.emulator_quirks import EndedExecutions
from shardmill.local.journal import Journal, Record, encoded
from shardmill.local.recorded_changes import RecordedChanges
from support.waits import run_until

MODULES = ("dynamodb", "stepfunctions", "sqs")
TABLE = {
    "TableName": "rows",
    "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
    "AttributeDefinitions": [
        {"AttributeName": "pk", "AttributeType": "S"},
        {"AttributeName": "sk", "AttributeType": "S"},
        {"AttributeName": "state", "AttributeType": "S"},
    ],
    "GlobalSecondaryIndexes": [
        {
            "IndexName": "by-state",
            "KeySchema": [{"AttributeName": "state", "KeyType": "HASH"}],
            "Projection": {"ProjectionType": "ALL"},
        }
    ],
    "BillingMode": "PAY_PER_REQUEST",
}
MACHINE = {"StartAt": "P", "States": {"P": {"Type": "Pass", "End": True}}}


class Recorder(Journal):
    """A journal in memory."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def append(self, record: Record) -> None:
        self.lines.append(encoded(record))

    def records(self) -> Iterator[Record]:
        return (json.loads(line[9:]) for line in list(self.lines))


class Services:
    """MiniStack's services, patched, with their state of now."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.modules = [import_module(f"ministack.services.{name}") for name in MODULES]
        self.dynamodb, self.stepfunctions, self.sqs = self.modules
        monkeypatch.setattr(self.sqs, "_HANDLERS", dict(self.sqs._HANDLERS))
        for module, names in (
            (self.dynamodb, ("_set_item", "_remove_item")),
            (self.stepfunctions, ("_emit_execution_status_event", "_run_execution")),
            (self.stepfunctions, ("_invoke_with_callback", "_execute_wait")),
            (self.sqs, ("_act_send_message", "_delete_messages_for_esm")),
        ):
            for name in names:
                monkeypatch.setattr(module, name, getattr(module, name))
        self.journal = Recorder()
        self.changes = RecordedChanges(self.journal, *self.modules)
        self.changes.record()
        self.base: list[Any] = []

    def call(self, service: Any, target: str, **data: Any) -> Any:
        headers = {"x-amz-target": target, "content-type": "application/x-amz-json-1.0"}
        answer = asyncio.run(service.handle_request("POST", "/", headers, json.dumps(data).encode(), {}))
        status, body = answer[0], json.loads(answer[2] or "{}")
        assert status == 200, body
        return body

    def dynamo(self, action: str, **data: Any) -> Any:
        return self.call(self.dynamodb, f"DynamoDB_20120810.{action}", **data)

    def queue(self, action: str, **data: Any) -> Any:
        return self.call(self.sqs, f"AmazonSQS.{action}", **data)

    def states(self, action: str, **data: Any) -> Any:
        return self.call(self.stepfunctions, f"AWSStepFunctions.{action}", **data)

    def machine(self) -> str:
        definition = {"name": "m", "definition": json.dumps(MACHINE), "roleArn": "arn:aws:iam::0:role/r"}
        return str(self.states("CreateStateMachine", **definition)["stateMachineArn"])

    def snapshot(self) -> None:
        self.base = [copy.deepcopy(module.get_state()) for module in self.modules]

    def restart(self) -> None:
        """Load the snapshot, and apply the journal."""
        for module, state in zip(self.modules, self.base, strict=True):
            module.reset()
            module.load_persisted_state(copy.deepcopy(state))
        lines, self.journal.lines = self.journal.lines, []
        self.changes.apply(json.loads(line[9:]) for line in lines)
        assert self.journal.lines == [], "applying records nothing"
        self.journal.lines = lines

    def close(self) -> None:
        for module in self.modules:
            module.reset()


@pytest.fixture
def services(monkeypatch: pytest.MonkeyPatch) -> Iterator[Services]:
    made = Services(monkeypatch)
    made.close()
    yield made
    made.close()


def row(key: str, **attributes: str) -> dict[str, Any]:
    return {name: {"S": value} for name, value in {"pk": key, "sk": "s", **attributes}.items()}


def table_of(services: Services) -> tuple[Any, Any]:
    """The items, and the keys that the index finds."""
    found = services.dynamo(
        "Query",
        TableName="rows",
        IndexName="by-state",
        KeyConditionExpression="#s = :s",
        ExpressionAttributeNames={"#s": "state"},
        ExpressionAttributeValues={":s": {"S": "on"}},
    )
    items = services.dynamo("Scan", TableName="rows")["Items"]
    return sorted(items, key=str), sorted(item["pk"]["S"] for item in found["Items"])


def change_rows(services: Services) -> None:
    services.dynamo("PutItem", TableName="rows", Item=row("a", state="on"))
    services.dynamo("PutItem", TableName="rows", Item=row("b", state="on"))
    services.dynamo(
        "UpdateItem",
        TableName="rows",
        Key=row("a"),
        UpdateExpression="SET #s = :s",
        ExpressionAttributeNames={"#s": "state"},
        ExpressionAttributeValues={":s": {"S": "off"}},
    )
    services.dynamo("DeleteItem", TableName="rows", Key=row("b"))
    puts = [{"Put": {"TableName": "rows", "Item": row(key, state="on")}} for key in ("c", "d")]
    services.dynamo(
        "TransactWriteItems", TransactItems=[*puts, {"Delete": {"TableName": "rows", "Key": row("x")}}]
    )
    batch = [{"PutRequest": {"Item": row("e", state="on")}}, {"DeleteRequest": {"Key": row("d")}}]
    services.dynamo("BatchWriteItem", RequestItems={"rows": batch})


@pytest.mark.parametrize("later", [False, True])
def test_rows_are_restored_even_onto_a_later_snapshot(services: Services, later: bool) -> None:
    """The journal may contain what the snapshot contains already."""
    services.dynamo("CreateTable", **TABLE)
    services.dynamo("PutItem", TableName="rows", Item=row("x", state="on"))
    services.snapshot()
    change_rows(services)
    if later:
        services.snapshot()
        services.dynamo("PutItem", TableName="rows", Item=row("f", state="on"))
    before = table_of(services)
    services.restart()
    assert table_of(services) == before
    assert before[1] == ["c", "e", *(["f"] if later else [])]


def test_a_refused_write_is_not_recorded(services: Services) -> None:
    services.dynamo("CreateTable", **TABLE)
    services.dynamo("PutItem", TableName="rows", Item=row("a"))
    recorded = len(services.journal.lines)
    with pytest.raises(AssertionError, match="ConditionalCheckFailed"):
        services.dynamo(
            "PutItem", TableName="rows", Item=row("a"), ConditionExpression="attribute_not_exists(pk)"
        )
    assert len(services.journal.lines) == recorded


def test_rows_of_an_unknown_table_are_left_out(services: Services) -> None:
    services.snapshot()
    services.dynamo("CreateTable", **TABLE)
    services.dynamo("PutItem", TableName="rows", Item=row("a"))
    services.restart()
    assert services.dynamo("ListTables")["TableNames"] == []


def test_executions_keep_their_names_and_ends(services: Services) -> None:
    states, machine = services.states, services.machine()
    services.snapshot()
    services.stepfunctions._run_execution = id
    arns = [
        states("StartExecution", stateMachineArn=machine, name=name, input="{}")["executionArn"]
        for name in ("running", "stopped")
    ]
    states("StopExecution", executionArn=arns[1], cause="the Job was ended")
    services.restart()
    status = [states("DescribeExecution", executionArn=arn)["status"] for arn in arns]
    assert status == ["RUNNING", "ABORTED"]
    assert states("GetExecutionHistory", executionArn=arns[0])["events"][0]["type"] == "ExecutionStarted"
    with pytest.raises(AssertionError, match="ExecutionAlreadyExists"):
        states("StartExecution", stateMachineArn=machine, name="stopped", input="{}")


def ended_executions(services: Services, machine: str, count: int) -> list[str]:
    """The ARNs of executions that were stopped, after one that still runs."""
    services.stepfunctions._run_execution = id
    arns = [
        services.states("StartExecution", stateMachineArn=machine, name=str(number), input='{"a": 1}')
        for number in range(count + 1)
    ]
    for each in arns[1:]:
        services.states("StopExecution", executionArn=each["executionArn"], cause="enough")
    return [each["executionArn"] for each in arns]


def kept_inputs(services: Services, arns: list[str]) -> list[bool]:
    return [bool(services.states("DescribeExecution", executionArn=arn)["input"]) for arn in arns]


@pytest.mark.parametrize("saved", ["never", "before the end", "after the end"])
def test_only_the_latest_ended_executions_keep_their_data(
    services: Services, monkeypatch: pytest.MonkeyPatch, saved: str
) -> None:
    monkeypatch.setattr(emulator_quirks, "KEPT_EXECUTIONS", 2)
    EndedExecutions(services.stepfunctions)
    machine = services.machine()
    services.snapshot()
    arns = ended_executions(services, machine, 5)
    expected = [True, False, False, False, True, True]
    assert kept_inputs(services, arns) == expected
    if saved == "after the end":
        services.snapshot()
        services.journal.lines.clear()
    if saved != "never":
        services.restart()
        emulator_quirks.InterruptedExecutions(services.stepfunctions).find()
        EndedExecutions(services.stepfunctions).find()
        assert kept_inputs(services, arns) == expected
    status = [services.states("DescribeExecution", executionArn=arn)["status"] for arn in arns]
    assert status == ["RUNNING"] + 5 * ["ABORTED"]
    assert services.states("GetExecutionHistory", executionArn=arns[1])["events"] == []
    assert services.states("StopExecution", executionArn=arns[1])["stopDate"]
    assert len(services.states("ListExecutions", stateMachineArn=machine)["executions"]) == 6
    with pytest.raises(AssertionError, match="ExecutionAlreadyExists"):
        services.states("StartExecution", stateMachineArn=machine, name="1", input="{}")


def test_the_thread_of_a_stopped_execution_does_not_bring_its_data_back(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(emulator_quirks, "KEPT_EXECUTIONS", 0)
    EndedExecutions(services.stepfunctions)
    machine, seen = services.machine(), list[Any]()
    services.stepfunctions._run_execution = lambda arn: seen.append(services.stepfunctions._executions[arn])
    start = {"stateMachineArn": machine, "name": "a", "input": "{}"}
    arn = services.states("StartExecution", **start)["executionArn"]
    run_until(lambda: bool(seen))
    services.states("StopExecution", executionArn=arn)
    services.stepfunctions._fail_execution(seen[0], "States.Timeout", "too late")
    described = services.states("DescribeExecution", executionArn=arn)
    assert (described["status"], described["input"]) == ("ABORTED", None)


def bodies(services: Services, url: str) -> list[str]:
    answer = services.queue("ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=0)
    return sorted(message["Body"] for message in answer.get("Messages", []))


@pytest.mark.parametrize("later", [False, True])
def test_queues_and_messages_are_restored(services: Services, later: bool) -> None:
    old = services.queue("CreateQueue", QueueName="old")["QueueUrl"]
    gone = services.queue("CreateQueue", QueueName="gone")["QueueUrl"]
    services.snapshot()
    new = services.queue("CreateQueue", QueueName="new", Attributes={"VisibilityTimeout": "7"})["QueueUrl"]
    services.queue("DeleteQueue", QueueUrl=gone)
    services.queue("SendMessage", QueueUrl=old, MessageBody="one")
    entries = [{"Id": str(number), "MessageBody": f"n{number}"} for number in range(4)]
    services.queue("SendMessageBatch", QueueUrl=new, Entries=entries)
    if later:
        services.snapshot()
    received = services.queue("ReceiveMessage", QueueUrl=new, MaxNumberOfMessages=3)["Messages"]
    handles = [message["ReceiptHandle"] for message in received]
    services.queue("DeleteMessage", QueueUrl=new, ReceiptHandle=handles[0])
    services.queue("DeleteMessageBatch", QueueUrl=new, Entries=[{"Id": "x", "ReceiptHandle": handles[1]}])
    services.sqs._delete_messages_for_esm(new, {handles[2]})
    services.restart()
    left = {f"n{number}" for number in range(4)} - {message["Body"] for message in received}
    assert bodies(services, new) == sorted(left)
    assert bodies(services, old) == ["one"]
    assert sorted(services.queue("ListQueues")["QueueUrls"]) == sorted([old, new])
    wanted = services.queue("GetQueueAttributes", QueueUrl=new, AttributeNames=["VisibilityTimeout"])
    assert wanted["Attributes"]["VisibilityTimeout"] == "7"
    assert services.queue("GetQueueUrl", QueueName="new")["QueueUrl"] == new


def test_an_unknown_record_is_an_error(services: Services) -> None:
    with pytest.raises(ValueError, match="'newer'"):
        services.changes.apply([["newer", 1]])
