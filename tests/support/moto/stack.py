"""Create the resources of template.yaml that moto's CloudFormation cannot deploy."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support.aws_rules.grants import WORKER
from support.moto.http_api import Route
from support.moto.template import Template, TemplateFault

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient
    from types_boto3_events import EventBridgeClient
    from types_boto3_s3 import S3Client
    from types_boto3_sqs import SQSClient
    from types_boto3_stepfunctions import SFNClient

ACCOUNT = "123456789012"
REGION = "us-east-1"
_QUEUE_ATTRIBUTES = (
    "DelaySeconds",
    "MaximumMessageSize",
    "MessageRetentionPeriod",
    "ReceiveMessageWaitTimeSeconds",
    "RedrivePolicy",
    "SqsManagedSseEnabled",
    "VisibilityTimeout",
)
_TABLE_PROPERTIES = ("AttributeDefinitions", "BillingMode", "GlobalSecondaryIndexes", "KeySchema")


@dataclass(frozen=True)
class Clients:
    dynamodb: "DynamoDBClient"
    events: "EventBridgeClient"
    s3: "S3Client"
    sqs: "SQSClient"
    stepfunctions: "SFNClient"


@dataclass
class Stack:
    """A stack under creation: physical names of resources and settings of the functions."""

    root: Path
    template: Template
    clients: Clients
    machines: dict[str, str] = field(default_factory=dict)
    functions: dict[str, str] = field(default_factory=dict)
    timeouts: dict[str, float] = field(default_factory=dict)
    reserved: dict[str, int] = field(default_factory=dict)
    """Reserved concurrency."""
    retries: dict[str, int] = field(default_factory=dict)
    """Retries of asynchronous invocations, where the template sets them."""
    tables: list[dict[str, Any]] = field(default_factory=list)
    """The requests that created the tables."""

    @property
    def name(self) -> str:
        return str(self.template.names["AWS::StackName"])

    def create(self) -> None:
        """Create each resource once its references exist, as CloudFormation does."""
        every = self.template.document["Resources"]
        waiting = {name: every[name] for name in every if self.template.holds(every[name].get("Condition"))}
        while waiting:
            made, fault = [], None
            for logical, resource in waiting.items():
                try:
                    self._create(logical, resource["Type"])
                    made.append(logical)
                except TemplateFault as missing:
                    fault = missing
            if not made:
                raise TemplateFault(f"cannot make {', '.join(waiting)}: {fault}") from fault
            for logical in made:
                del waiting[logical]

    def environment(self) -> dict[str, str]:
        """The environment of all functions, which share this process."""
        merged: dict[str, str] = {}
        globals_ = self.template.document.get("Globals", {}).get("Function", {})
        blocks = [("Globals", globals_)] + [
            (logical, resource["Properties"])
            for logical, resource in self.template.resources("AWS::Serverless::Function").items()
        ]
        for owner, properties in blocks:
            variables = properties.get("Environment", {}).get("Variables", {})
            for name, value in self.template.resolve(variables).items():
                if merged.setdefault(name, str(value)) != str(value):
                    raise TemplateFault(f"{owner} wants another {name} than the functions before it")
        return merged

    def statements(self) -> dict[str, list[dict[str, Any]]]:
        """What the policies of each function allow, by its folder, and what WorkerPolicy allows."""
        found: dict[str, list[dict[str, Any]]] = {}
        for logical, resource in self.template.resources("AWS::Serverless::Function").items():
            folder = Path(str(resource["Properties"]["CodeUri"])).name
            policies = self.template.properties(logical).get("Policies", [])
            found[folder] = [statement for policy in policies for statement in policy["Statement"]]
        for logical in self.template.resources("AWS::IAM::ManagedPolicy"):
            found[WORKER] = self.template.properties(logical)["PolicyDocument"]["Statement"]
        return found

    def failure_destinations(self) -> dict[str, Callable[[dict[str, Any]], object]]:
        """Send the record of a failed event to the queue that the function names, by its folder."""
        found: dict[str, Callable[[dict[str, Any]], object]] = {}
        for logical, resource in self.template.resources("AWS::Serverless::Function").items():
            invoked = self.template.properties(logical).get("EventInvokeConfig", {})
            destination = invoked.get("DestinationConfig", {}).get("OnFailure", {})
            if destination.get("Type") == "SQS":
                folder = Path(str(resource["Properties"]["CodeUri"])).name
                found[folder] = partial(self._send, destination["Destination"])
        return found

    def _send(self, queue_arn: str, record: dict[str, Any]) -> None:
        url = self.clients.sqs.get_queue_url(QueueName=queue_arn.rsplit(":", 1)[-1])["QueueUrl"]
        self.clients.sqs.send_message(QueueUrl=url, MessageBody=json.dumps(record))

    def routes(self) -> list[Route]:
        """The explicit routes of the HTTP API."""
        return [self._route(name) for name in self.template.resources("AWS::ApiGatewayV2::Route")]

    def _route(self, logical: str) -> Route:
        route = self.template.properties(logical)
        integration = self._named(route["Target"].removeprefix("integrations/"))
        function = self._function_in(self.template.properties(integration)["IntegrationUri"])
        if route.get("AuthorizationType", "NONE") == "NONE":
            return Route(route["RouteKey"], function)
        authorizer = self.template.properties(self._named(route["AuthorizerId"]))
        return Route(
            route["RouteKey"],
            function,
            self._function_in(authorizer["AuthorizerUri"]),
            needs_header=bool(authorizer.get("IdentitySource")),
        )

    def custom_resources(self) -> list[tuple[str, str, dict[str, Any]]]:
        """(logical name, function, properties) of each custom resource."""
        found = []
        for logical, resource in self.template.document["Resources"].items():
            kind = resource["Type"]
            if kind.startswith("Custom::") or kind == "AWS::CloudFormation::CustomResource":
                properties = self.template.properties(logical)
                found.append((logical, self._function_in(properties["ServiceToken"]), properties))
        return found

    def _create(self, logical: str, kind: str) -> None:
        makers: dict[str, Callable[[str, dict[str, Any]], None]] = {
            "AWS::DynamoDB::Table": self._table,
            "AWS::S3::Bucket": self._bucket,
            "AWS::SQS::Queue": self._queue,
            "AWS::Events::Rule": self._rule,
            "AWS::Serverless::Function": self._function,
            "AWS::Serverless::StateMachine": self._machine,
        }
        if kind in makers:
            raw = self.template.document["Resources"][logical].get("Properties", {})
            makers[kind](logical, raw)
        else:
            self.template.names[logical] = f"{self.name}-{logical}"
            self.template.unmodelled.add(logical)

    def _table(self, logical: str, raw: dict[str, Any]) -> None:
        properties = self.template.resolve(raw)
        name = properties.get("TableName", f"{self.name}-{logical}")
        wanted = {key: properties[key] for key in _TABLE_PROPERTIES if key in properties}
        self.tables.append({"TableName": name, **wanted})
        self.clients.dynamodb.create_table(TableName=name, **wanted)
        if "TimeToLiveSpecification" in properties:
            self.clients.dynamodb.update_time_to_live(
                TableName=name, TimeToLiveSpecification=properties["TimeToLiveSpecification"]
            )
        self._known(logical, name, f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{name}")

    def _bucket(self, logical: str, raw: dict[str, Any]) -> None:
        name = self.template.resolve(raw.get("BucketName", f"{self.name}-{logical}".lower()))
        self.clients.s3.create_bucket(Bucket=name)
        self._known(logical, name, f"arn:aws:s3:::{name}")

    def _queue(self, logical: str, raw: dict[str, Any]) -> None:
        properties = self.template.resolve(raw)
        name = properties.get("QueueName", f"{self.name}-{logical}")
        attributes = {key: properties[key] for key in _QUEUE_ATTRIBUTES if key in properties}
        text = {
            key: value if isinstance(value, str) else json.dumps(value) for key, value in attributes.items()
        }
        url = self.clients.sqs.create_queue(QueueName=name, Attributes=text)["QueueUrl"]  # type: ignore[arg-type]
        self._known(logical, url, f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}")
        self.template.attributes[logical, "QueueName"] = name
        self.template.attributes[logical, "QueueUrl"] = url

    def _rule(self, logical: str, raw: dict[str, Any]) -> None:
        properties = self.template.resolve(raw)
        name = properties.get("Name", f"{self.name}-{logical}")
        arn = self.clients.events.put_rule(Name=name, EventPattern=json.dumps(properties["EventPattern"]))
        self.clients.events.put_targets(Rule=name, Targets=properties["Targets"])
        self._known(logical, name, arn["RuleArn"])

    def _function(self, logical: str, raw: dict[str, Any]) -> None:
        name = self.template.resolve(raw.get("FunctionName", f"{self.name}-{logical}"))
        folder = Path(str(raw["CodeUri"])).name
        globals_ = self.template.document.get("Globals", {}).get("Function", {})
        self.functions[folder] = name
        self.timeouts[folder] = float(raw.get("Timeout", globals_.get("Timeout", 3)))
        invoked = raw.get("EventInvokeConfig", {})
        if "MaximumRetryAttempts" in invoked:
            self.retries[folder] = invoked["MaximumRetryAttempts"]
        limits = self.template.resolve(
            {key: raw[key] for key in raw if key == "ReservedConcurrentExecutions"}
        )
        if limits:
            self.reserved[folder] = int(limits["ReservedConcurrentExecutions"])
        self._known(logical, name, f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{name}")

    def _machine(self, logical: str, raw: dict[str, Any]) -> None:
        name = self.template.resolve(raw.get("Name", f"{self.name}-{logical}"))
        definition = (self.root / raw["DefinitionUri"]).read_text()
        for key, value in self.template.resolve(raw.get("DefinitionSubstitutions", {})).items():
            definition = definition.replace(f"${{{key}}}", str(value))
        arn = self.clients.stepfunctions.create_state_machine(
            name=name,
            definition=definition,
            roleArn=f"arn:aws:iam::{ACCOUNT}:role/{name}",
            type=raw.get("Type", "STANDARD"),
        )["stateMachineArn"]
        self.machines[name.removeprefix(f"{self.name}-")] = arn
        self._known(logical, arn, arn)
        self.template.attributes[logical, "Name"] = name

    def _known(self, logical: str, reference: str, arn: str) -> None:
        self.template.names[logical] = reference
        self.template.attributes[logical, "Arn"] = arn

    def _named(self, physical: str) -> str:
        return next(logical for logical, name in self.template.names.items() if name == physical)

    def _function_in(self, uri: str) -> str:
        for folder, name in self.functions.items():
            if uri == name or uri.removesuffix("/invocations").endswith(f":function:{name}"):
                return folder
        raise TemplateFault(f"no function of the template is in {uri}")
