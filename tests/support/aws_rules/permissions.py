"""IAM: functions and workers may only make the calls that their policies in template.yaml allow.

`used` has what the tests of this process needed, and `refused` what they were not allowed: `make test` finds
permissions that nothing needs, and missing ones also where the code handles the error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any
from unittest.mock import patch

from botocore.client import BaseClient
from botocore.exceptions import ClientError

from shardmill.aws.files import Files, Place
from support.aws_rules.call import Call, running_as, running_function, threads_keep_roles
from support.aws_rules.grants import described, listed, refused, used
from support.watch import is_watched

_S3_ACTIONS = {
    "CompleteMultipartUpload": ("s3:PutObject",),
    "CopyObject": ("s3:GetObject", "s3:PutObject"),
    "CreateMultipartUpload": ("s3:PutObject",),
    "DeleteObjects": ("s3:DeleteObject",),
    "HeadObject": ("s3:GetObject",),
    "ListMultipartUploads": ("s3:ListBucketMultipartUploads",),
    "ListObjectsV2": ("s3:ListBucket",),
    "UploadPart": ("s3:PutObject",),
    "UploadPartCopy": ("s3:GetObject", "s3:PutObject"),
}
_TRANSACTION = {
    "Put": "PutItem",
    "Update": "UpdateItem",
    "Delete": "DeleteItem",
    "ConditionCheck": "ConditionCheckItem",
}
_NO_OBJECT = ("404", "NoSuchKey")
Wanted = tuple[str, str]
"""An action and the ARN that it acts on."""


@dataclass(frozen=True)
class Permissions:
    """`statements`: the resolved statements of the policies of each role."""

    statements: Mapping[str, Sequence[Mapping[str, Any]]]
    account: str
    region: str

    @contextmanager
    def enforced(self) -> Iterator[None]:
        original = BaseClient._make_api_call  # type: ignore[attr-defined]
        sign: Callable[..., str] = Files._sign

        def make_api_call(client: BaseClient, operation: str, params: dict[str, Any]) -> dict[str, Any]:
            function = running_function.get()
            if function and is_watched(client):
                self.check(function, Call(client, operation, params, original))
            try:
                with running_as(None):  # a state machine that the call starts does not run with this role
                    return original(client, operation, params)  # type: ignore[no-any-return]
            except ClientError as error:
                if function and is_watched(client) and error.response["Error"]["Code"] in _NO_OBJECT:
                    self._check_listing(function, Call(client, operation, params, original))
                raise

        def sign_url(files: Files, operation: str, place: Place, **more: Any) -> str:
            """The user of a presigned URL has the permissions of the function that signed it."""
            signed = sign(files, operation, place, **more)  # first, because it rejects invalid names
            function = running_function.get()
            if function:
                params = {"Bucket": place.bucket, "Key": place.key}
                name = "".join(word.capitalize() for word in operation.split("_"))
                call = Call(files._client, name, params, original)  # type: ignore[arg-type]
                self.check(function, call)
                if name == "GetObject":
                    self._check_listing(function, call)
            return signed

        with (
            patch.object(BaseClient, "_make_api_call", make_api_call),
            patch.object(Files, "_sign", sign_url),
            threads_keep_roles(),
        ):
            yield

    def check(self, role: str, call: Call) -> None:
        for action, arn in self._wanted(call):
            if text := self._refusal(role, action, arn):
                raise call.refused("AccessDeniedException", text)

    def _check_listing(self, role: str, call: Call) -> None:
        """Without s3:ListBucket, S3 answers 403 instead of 404 if an object is missing."""
        source = call.params.get("CopySource")
        bucket = source["Bucket"] if isinstance(source, dict) else call.params["Bucket"]
        if text := self._refusal(role, "s3:ListBucket", f"arn:aws:s3:::{bucket}"):
            raise call.refused("403", text)

    def check_mapping(self, function: str, queue_url: str) -> None:
        """What Lambda does with the role of a function while it polls a queue for it."""
        for action in ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"):
            arn = self._arn("sqs", queue_url.rsplit("/", 1)[-1])
            assert not self._refusal(function, action, arn)

    def _refusal(self, role: str, action: str, arn: str) -> str | None:
        if self.allows(role, action, arn):
            return None
        refused.add((role, action, arn))
        return f"{described(role)} is not authorized to perform {action} on {arn}"

    def allows(self, function: str, action: str, arn: str) -> bool:
        for number, statement in enumerate(self.statements.get(function, ())):
            if action in listed(statement["Action"]) and _matches(arn, listed(statement["Resource"])):
                used.add((function, action, number))
                return True
        return False

    def _wanted(self, call: Call) -> Iterator[Wanted]:
        params, operation = call.params, call.operation
        if call.service == "dynamodb":
            yield from self._dynamodb(operation, params)
        elif call.service == "sqs":
            queue = params.get("QueueName") or params.get("QueueUrl", "*").rsplit("/", 1)[-1]
            yield f"sqs:{operation.removesuffix('Batch')}", self._arn("sqs", queue)
            if "tags" in params:
                yield "sqs:TagQueue", self._arn("sqs", queue)
        elif call.service == "stepfunctions":
            yield f"states:{operation}", params.get("stateMachineArn") or params.get("executionArn") or ""
        elif call.service == "events":
            yield f"events:{operation}", self._arn("events", "event-bus/default")
        elif call.service == "s3":
            of_bucket = operation.startswith("List") or operation.endswith("BucketPolicy")
            key = "" if of_bucket else f"/{params.get('Key', '*')}"
            for action in _S3_ACTIONS.get(operation, (f"s3:{operation}",)):
                yield action, f"arn:aws:s3:::{params['Bucket']}{key}"
        elif call.service == "lambda" and operation == "Invoke":
            yield "lambda:InvokeFunction", self._arn("lambda", f"function:{params['FunctionName']}")
        else:
            yield f"{call.service}:{operation}", ""

    def _dynamodb(self, operation: str, params: Mapping[str, Any]) -> Iterator[Wanted]:
        if operation == "TransactWriteItems":
            for item in params["TransactItems"]:
                [(kind, change)] = item.items()
                yield f"dynamodb:{_TRANSACTION[kind]}", self._arn("dynamodb", f"table/{change['TableName']}")
            return
        tables: Iterable[str] = params.get("RequestItems", [params.get("TableName")])
        index = f"/index/{params['IndexName']}" if "IndexName" in params else ""
        for table in tables:
            yield f"dynamodb:{operation}", self._arn("dynamodb", f"table/{table}{index}")

    def _arn(self, service: str, name: str) -> str:
        return f"arn:aws:{service}:{self.region}:{self.account}:{name}"


def _matches(arn: str, patterns: Sequence[str]) -> bool:
    return not arn or any(fnmatchcase(arn, pattern) for pattern in patterns)
