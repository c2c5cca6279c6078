"""template.yaml allows exactly the AWS calls that the code makes; e2e tests check each function."""

import re
from collections.abc import Iterator
from typing import Any

from shardmill.local.sam_template import load_template
from support.paths import PROJECT

CORE = PROJECT / "layers/core/python/shardmill"
CALLERS = {
    "store/table.py": "dynamodb",
    "aws/queues.py": "sqs",
    "aws/machines.py": "states",
    "aws/bus.py": "events",
    "aws/files.py": "s3",
    "worker/logs.py": "s3",
    "aws/topics.py": "sns",
    "aws/functions.py": "lambda",
}
SECRETS = {
    r"_ssm\(\)\.(\w+)": "ssm",
    r"_secretsmanager\(\)\.(\w+)": "secretsmanager",
    r"_kms\(\)\.(\w+)": "kms",
}
CALLS = (
    r"_sign\(\s*\"(\w+)\"",
    r"_client\s*\.(\w+)",
    r'get_paginator\("(\w+)"\)',
    r'presigned_url\(\s*"(\w+)"',
    r"s3\(\)\.(\w+)",
)
HELPERS = {"get_paginator", "generate_presigned_url", "meta"}
OTHER_NAMES = {
    "s3:ListObjectsV2": ["s3:ListBucket"],
    "s3:DeleteObjects": ["s3:DeleteObject"],
    "s3:HeadObject": ["s3:GetObject"],
    "s3:CopyObject": ["s3:GetObject", "s3:PutObject"],
    "s3:CreateMultipartUpload": ["s3:PutObject"],
    "s3:CompleteMultipartUpload": ["s3:PutObject"],
    "s3:UploadPart": ["s3:PutObject"],
    "s3:UploadPartCopy": ["s3:GetObject", "s3:PutObject"],
    "s3:ListMultipartUploads": ["s3:ListBucketMultipartUploads"],
    "lambda:Invoke": ["lambda:InvokeFunction"],
    "sqs:CreateQueue": ["sqs:CreateQueue", "sqs:TagQueue"],
    "dynamodb:TransactWriteItems": ["dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:ConditionCheckItem"],
}
BY_AWS_ITSELF = {
    "lambda:InvokeFunction",  # the state machines
    "sqs:GetQueueAttributes",  # the mappings from the lanes to the runner
}


def called() -> Iterator[str]:
    for file, service in CALLERS.items():
        text = (CORE / file).read_text()
        names = {name for pattern in CALLS for name in re.findall(pattern, text)} - HELPERS
        for name in names:
            operation = "".join(word.capitalize() for word in name.split("_"))
            operation = operation if service == "dynamodb" else operation.removesuffix("Batch")
            yield from OTHER_NAMES.get(f"{service}:{operation}", [f"{service}:{operation}"])

    text = "".join((CORE / "aws" / name).read_text() for name in ("secrets.py", "data_keys.py"))
    for pattern, service in SECRETS.items():
        for name in re.findall(pattern, text):
            yield f"{service}:{''.join(word.capitalize() for word in name.split('_'))}"


def allowed() -> Iterator[tuple[str, str]]:
    resources: dict[str, dict[str, Any]] = load_template(PROJECT / "template.yaml")["Resources"]
    for name, resource in resources.items():
        properties = resource.get("Properties", {})
        for document in [*properties.get("Policies", []), properties.get("PolicyDocument", {})]:
            for statement in document.get("Statement", []):
                if statement["Effect"] == "Allow":
                    actions = statement["Action"]
                    yield from ((name, each) for each in ([actions] if isinstance(actions, str) else actions))


def test_nothing_is_allowed_that_the_code_does_not_call() -> None:
    needed = {*called(), *BY_AWS_ITSELF}
    assert {(name, action) for name, action in allowed() if action not in needed} == set()


def test_every_call_of_the_code_is_allowed_somewhere() -> None:
    assert set(called()) <= {action for _, action in allowed()}
