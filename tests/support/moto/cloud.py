"""A deployed stack: its clients, functions, HTTP API and clock."""

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from support.aws_rules.lambda_concurrency import TooManyRequests
from support.aws_rules.permissions import Permissions
from support.fakes.lambda_server import FunctionError, Functions, LambdaServer
from support.moto.http_api import Answer, HttpApi
from support.moto.stack import ACCOUNT, REGION, Clients, Stack
from support.waits import run_until
from support.watch import observing

if TYPE_CHECKING:
    from types_boto3_stepfunctions.type_defs import ExecutionListItemTypeDef

T = TypeVar("T")

_FAILED_STATUSES = ("FAILED", "TIMED_OUT", "ABORTED")
_CAPTURE = "test-captured-events"


@dataclass
class Cloud:
    stack: Stack
    functions: Functions
    api: HttpApi
    environment: Mapping[str, str]
    token: str
    permissions: Permissions | None = None
    settled: set[str] = field(default_factory=set)

    @property
    def clients(self) -> Clients:
        """Clients for the test's own reads: not counted and not failed by Faults."""
        return self.stack.clients

    @property
    def table(self) -> str:
        return self.environment["SHARDMILL_TABLE"]

    @property
    def bucket(self) -> str:
        return self.environment["SHARDMILL_BUCKET"]

    def invoke(self, function: str, event: Any) -> Any:
        """Invoke a function synchronously; raises FunctionError when its handler raises."""
        return self.functions.invoke(function, event)

    def invoke_async(self, function: str, event: Any) -> None:
        """Invoke a function as an EventBridge rule does: with retries, and what fails finally is kept."""
        self.functions.invoke_async(function, event)

    def http(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = "",
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """A request through the authorizer and the route; `token=None` sends none, "" the admin's.

        A body of bytes is sent as it is, any other as JSON."""
        sent = {name.lower(): value for name, value in (headers or {}).items()}
        if token is not None:
            sent.setdefault("authorization", f"Bearer {token or self.token}")
        payload: bytes | None = None
        if body is not None:
            payload = body if isinstance(body, bytes) else json.dumps(body).encode()
            sent.setdefault("content-type", "application/json")
        return self.api.request(method, path, payload, sent)

    def tick(self, at: datetime | None = None) -> Any:
        """Fire the rule of each minute at a given time."""
        return self.invoke("tick", _event("Scheduled Event", "aws.events", at or datetime.now(UTC), {}))

    def executions(
        self, machine: str | None = None, status: str | None = None
    ) -> "list[ExecutionListItemTypeDef]":
        """The executions of one machine (`job`, `step`) or of all, oldest first."""
        arns = [self.stack.machines[machine]] if machine else list(self.stack.machines.values())
        found = [
            execution
            for arn in arns
            for page in self.clients.stepfunctions.get_paginator("list_executions").paginate(
                stateMachineArn=arn
            )
            for execution in page["executions"]
            if status in (None, execution["status"])
        ]
        return sorted(found, key=lambda execution: execution["startDate"])

    def settle(self) -> list[str]:
        """Deliver the status changes of failed executions that were not delivered yet."""
        delivered = []
        for execution in self.executions():
            arn = execution["executionArn"]
            if execution["status"] in _FAILED_STATUSES and arn not in self.settled:
                self.invoke("execution_failed", self._status_change(arn))
                self.settled.add(arn)
                delivered.append(arn)
        return delivered

    def transitions(self, execution_arn: str) -> int:
        """The states that an execution entered, which is what AWS bills (but for retries)."""
        pages = self.clients.stepfunctions.get_paginator("get_execution_history")
        return sum(
            event["type"].endswith("StateEntered")
            for page in pages.paginate(executionArn=execution_arn)
            for event in page["events"]
        )

    def serve_lambda_queue(self, batch: int = 10) -> int:
        """Poll the Lambda queue once, as its event source mapping does; return the message count."""
        return self._serve(self.environment["SHARDMILL_LAMBDA_QUEUES"], "runner", batch)

    def serve_fire_queue(self, batch: int = 1) -> int:
        """Run the event source mapping of `fire` until its queue is empty; return the message count."""
        handled = 0
        while served := self._serve(self.environment["SHARDMILL_FIRE_QUEUE"], "fire", batch):
            handled += served
        return handled

    def serve_notify_queue(self) -> int:
        """Run the event source mapping of `notify` until no message is visible; return the deleted count."""
        url, handled = self.environment["SHARDMILL_NOTIFY_QUEUE"], 0
        while messages := self._visible(url, "notify", 1):
            handled += self._deliver(url, "notify", messages)
        return handled

    def _serve(self, url: str, function: str, batch: int) -> int:
        messages = self._visible(url, function, batch)
        return self._deliver(url, function, messages) if messages else 0

    def _visible(self, url: str, function: str, most: int) -> list[Any]:
        """Receive as the event source mapping of a function does, which uses the function's role."""
        if self.permissions:
            self.permissions.check_mapping(function, url)
        answer = self.clients.sqs.receive_message(
            QueueUrl=url, MaxNumberOfMessages=most, MessageSystemAttributeNames=["All"]
        )
        return list(answer.get("Messages", []))

    def deliver_job_ends(self) -> list[dict[str, Any]]:
        """Deliver the Job ends published since the last call to `dependency`, those that its rule matches.

        Returns all events."""
        events = self.published()
        for event in events:
            ended = event["source"] == "shardmill" and event["detail-type"] == "Job Ended"
            if ended and event["detail"].get("dependents"):
                whole = _event(event["detail-type"], event["source"], datetime.now(UTC), event["detail"])
                self.invoke("dependency", whole)
        return events

    def deliver_due_jobs(self) -> list[int]:
        """Deliver the chunks of due Jobs published since the last call; return how many Jobs each checked."""
        return [
            self.invoke("tick", _event("Jobs Due", "shardmill", datetime.now(UTC), event["detail"]))["looked"]
            for event in self.published()
            if event["detail-type"] == "Jobs Due"
        ]

    def published(self) -> list[dict[str, Any]]:
        """The events put on the bus since the last call."""
        url = self.clients.sqs.get_queue_url(QueueName=_CAPTURE)["QueueUrl"]
        found: list[dict[str, Any]] = []
        while messages := self.clients.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get(
            "Messages"
        ):
            for message in messages:
                found.append(json.loads(message["Body"]))
                self.clients.sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return found

    def run_until(
        self, predicate: Callable[[], T], timeout: float = 10.0, meanwhile: Callable[[], object] | None = None
    ) -> T:
        """Wait for the executions' threads to make `predicate` true; on a timeout, report their states.

        AWS calls of the predicate belong to the test, those of `meanwhile` to the system under test."""

        def look() -> T:
            with observing():
                return predicate()

        return run_until(look, timeout, interval=0.02, meanwhile=meanwhile, describe=self._execution_states)

    def wait_for_executions(self, timeout: float = 10.0) -> None:
        """Wait until no execution is running."""
        self.run_until(lambda: not self.executions(status="RUNNING"), timeout)

    def capture_events(self) -> None:
        url = self.clients.sqs.create_queue(QueueName=_CAPTURE)["QueueUrl"]
        self.clients.events.put_rule(Name=_CAPTURE, EventPattern=json.dumps({"source": [{"prefix": ""}]}))
        target = f"arn:aws:sqs:{REGION}:{ACCOUNT}:{url.rsplit('/', 1)[-1]}"
        self.clients.events.put_targets(Rule=_CAPTURE, Targets=[{"Id": "capture", "Arn": target}])

    def run_custom_resources(self, server: LambdaServer, request_type: str = "Create") -> None:
        """Send the custom resources the requests that CloudFormation sends on creation."""
        for logical, function, properties in self.stack.custom_resources():
            event = {
                "RequestType": request_type,
                "RequestId": str(uuid.uuid4()),
                "LogicalResourceId": logical,
                "PhysicalResourceId": logical,
                "ResourceType": self.stack.template.document["Resources"][logical]["Type"],
                "ResponseURL": f"{server.url}/custom-resource",
                "StackId": self.stack.template.names["AWS::StackId"],
                "ServiceToken": properties["ServiceToken"],
                "ResourceProperties": properties,
            }
            self.invoke(function, event)
            answer = server.custom_resource_answers.pop() if server.custom_resource_answers else None
            if answer is None or answer.get("Status") != "SUCCESS":
                raise AssertionError(f"custom resource {logical} was not made: {answer}")

    def _deliver(self, url: str, function: str, messages: list[Any]) -> int:
        try:
            answer = self.invoke(function, {"Records": [_record(url, message) for message in messages]})
        except (FunctionError, TooManyRequests) as fault:
            print(fault)
            return 0
        failed = {item["itemIdentifier"] for item in (answer or {}).get("batchItemFailures", [])}
        done = [message for message in messages if message["MessageId"] not in failed]
        for message in done:
            self.clients.sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return len(done)

    def _status_change(self, execution_arn: str) -> dict[str, Any]:
        described = self.clients.stepfunctions.describe_execution(executionArn=execution_arn)
        detail = {key: described.get(key) for key in ("executionArn", "stateMachineArn", "name", "status")}
        detail |= {key: described.get(key) for key in ("input", "output", "error", "cause")}
        detail |= {key: int(described[key].timestamp() * 1000) for key in ("startDate", "stopDate")}
        ended = described["stopDate"].astimezone(UTC)
        return _event("Step Functions Execution Status Change", "aws.states", ended, detail)

    def _execution_states(self) -> str:
        lines = []
        for execution in self.executions():
            described = self.clients.stepfunctions.describe_execution(executionArn=execution["executionArn"])
            why = f" {described.get('error')}: {described.get('cause')}" if described.get("error") else ""
            lines.append(f"{described['name']} {described['status']}{why}")
        return "executions:\n  " + "\n  ".join(lines or ["none"])


def _event(detail_type: str, source: str, at: datetime, detail: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "version": "0",
        "id": str(uuid.uuid4()),
        "detail-type": detail_type,
        "source": source,
        "account": ACCOUNT,
        "time": at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "region": REGION,
        "resources": [],
        "detail": dict(detail),
    }


def _record(url: str, message: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": message.get("Attributes", {}),
        "messageAttributes": {},
        "md5OfBody": message["MD5OfBody"],
        "eventSource": "aws:sqs",
        "eventSourceARN": f"arn:aws:sqs:{REGION}:{ACCOUNT}:{url.rsplit('/', 1)[-1]}",
        "awsRegion": REGION,
    }
