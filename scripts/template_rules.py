"""Check the CloudFormation that SAM makes of template.yaml with cfripper. Accepted findings have a reason."""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

import pycfmodel
from cfripper.cli import init_cfripper
from samtranslator.translator.transform import transform

from shardmill.local.sam_template import load_template

ROOT = Path(__file__).parents[1]
CODE = {
    "AWS::Serverless::Function": "CodeUri",
    "AWS::Serverless::LayerVersion": "ContentUri",
    "AWS::Serverless::StateMachine": "DefinitionUri",
}
ACCEPTED = {
    (
        "S3ObjectVersioningRule",
        "Bucket",
    ): "files are written once under keys of their attempt; versions would keep what a user deletes",
    (
        "WildcardResourceRule",
        "SetupFunctionRole",
    ): "sqs:ListQueues accepts no resource, and only this function has it",
}


class _ManagedPolicies:
    """The template names no managed policy by a short name."""

    def load(self) -> dict[str, str]:
        return {}


def translated(file: Path) -> dict[str, Any]:
    """The template after the transform of SAM, as CloudFormation processes it."""
    template: dict[str, Any] = json.loads(json.dumps(load_template(file)))
    template["Transform"] = "AWS::Serverless-2016-10-31"
    for resource in template["Resources"].values():
        resource.pop("Metadata", None)
        if resource["Type"] in CODE:
            resource["Properties"][CODE[resource["Type"]]] = "s3://bucket/key"
    os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")
    plain: dict[str, Any] = transform(template, {}, _ManagedPolicies())
    return plain


def findings(template: dict[str, Any]) -> dict[tuple[str, str], str]:
    """The reason of each finding, by rule and resource."""
    logging.getLogger("pycfmodel").setLevel(logging.ERROR)
    config, rules = init_cfripper(None, None, None, None)
    result = rules.process_cf_template(pycfmodel.parse(template), config)
    if result.exceptions:
        raise RuntimeError(f"a rule of cfripper failed: {result.exceptions}")
    return {
        (failure.rule, resource): failure.reason
        for failure in result.failures
        for resource in failure.resource_ids or {""}
    }


def main() -> int:
    found = findings(translated(ROOT / "template.yaml"))
    faults = [f"{rule}: {found[rule, name]}" for rule, name in sorted(found.keys() - ACCEPTED.keys())]
    faults += [
        f"{rule} of {name} is accepted and no longer found" for rule, name in ACCEPTED.keys() - found.keys()
    ]
    sys.stderr.writelines(f"template.yaml: {fault}\n" for fault in faults)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
