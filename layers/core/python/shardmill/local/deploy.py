"""Deploy this repository's template.yaml to a local AWS endpoint, as `sam deploy` does to AWS."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import botocore.session
from botocore.config import Config
from botocore.exceptions import ClientError

from shardmill.local import emulator_quirks
from shardmill.local.environment import REGION
from shardmill.local.errors import DeployFailed
from shardmill.local.package import function_files, layer_files, with_bytecode, zipped
from shardmill.local.sam_template import load_emulated_template

if TYPE_CHECKING:
    from types_boto3_cloudformation import CloudFormationClient
    from types_boto3_cloudformation.type_defs import StackTypeDef
    from types_boto3_s3 import S3Client

STACK = "shardmill"
ARTIFACTS = "shardmill-artifacts"
DEPLOY_SECONDS = 120.0
_CONFIG = Config(
    proxies={},
    read_timeout=60,
    s3={"addressing_style": "path"},
    use_fips_endpoint=False,
    use_dualstack_endpoint=False,
)
_CODE = {"AWS::Serverless::Function": "CodeUri", "AWS::Serverless::LayerVersion": "ContentUri"}


class Endpoint:
    """boto3 clients of one local AWS endpoint, which ignore the user's AWS configuration."""

    def __init__(self, url: str) -> None:
        self.url = url
        nowhere = (None, None, os.devnull, None)
        nothing = (None, None, None, None)
        bare = botocore.session.Session(
            {
                "config_file": nowhere,
                "credentials_file": nowhere,
                "profile": nothing,
                "ca_bundle": nothing,
            }
        )
        self._session = boto3.Session(botocore_session=bare)

    def client(self, service: str) -> Any:
        return self._session.client(  # type: ignore[call-overload]
            service,
            endpoint_url=self.url,
            region_name=REGION,
            aws_access_key_id="test",
            aws_secret_access_key="test",  # noqa: S106 - the emulator accepts any
            config=_CONFIG,
        )


@dataclass(frozen=True)
class Package:
    """The content of a deployment: the template and the files of its code folders."""

    root: Path

    @cached_property
    def template(self) -> dict[str, Any]:
        return load_emulated_template(self.root / "template.yaml")

    @cached_property
    def files(self) -> dict[str, dict[str, bytes]]:
        """The files of each resource with code, by name."""
        return {name: self._read(kind, self.root / uri) for name, kind, uri in self._code()}

    def _code(self) -> Iterator[tuple[str, str, str]]:
        for name, resource in self.template["Resources"].items():
            kind = resource["Type"]
            if kind in _CODE:
                yield name, kind, resource["Properties"][_CODE[kind]]

    @staticmethod
    def _read(kind: str, folder: Path) -> dict[str, bytes]:
        files = layer_files(folder) if kind == "AWS::Serverless::LayerVersion" else function_files(folder)
        if not files:
            raise DeployFailed(f"template.yaml refers to {folder}, which has no files")
        return files

    @cached_property
    def machines(self) -> dict[str, Any]:
        """The definition of each state machine."""
        return {
            name: json.loads((self.root / resource["Properties"]["DefinitionUri"]).read_text())
            for name, resource in self.template["Resources"].items()
            if resource["Type"] == "AWS::Serverless::StateMachine"
        }

    @cached_property
    def digest(self) -> str:
        """A hash of everything that is deployed."""
        whole = hashlib.sha256(json.dumps([self.template, self.machines], sort_keys=True).encode())
        for resource, files in sorted(self.files.items()):
            for name, content in sorted(files.items()):
                whole.update(f"\0{resource}\0{name}\0{len(content)}\0".encode() + content)
        return whole.hexdigest()

    def archives(self) -> dict[str, bytes]:
        layers = {name for name, kind, _ in self._code() if kind == "AWS::Serverless::LayerVersion"}
        try:
            return {
                name: zipped(with_bytecode(files) if name in layers else files)
                for name, files in self.files.items()
            }
        except SyntaxError as error:
            raise DeployFailed(f"{error.filename}, line {error.lineno}: {error.msg}") from error

    def deployable(self, keys: dict[str, str]) -> dict[str, Any]:
        """The template with its code in S3 and the definitions of its state machines inline."""
        template: dict[str, Any] = json.loads(json.dumps(self.template))
        for name, kind, _ in self._code():
            resource = template["Resources"][name]
            resource["Properties"][_CODE[kind]] = f"s3://{ARTIFACTS}/{keys[name]}"
            resource.pop("Metadata", None)
        for name, definition in self.machines.items():
            properties = template["Resources"][name]["Properties"]
            del properties["DefinitionUri"]
            properties["Definition"] = definition
        emulator_quirks.keep_authorizers_uncached(template)
        emulator_quirks.pass_large_bodies(template)
        return template


class Deployer:
    def __init__(self, endpoint: Endpoint) -> None:
        self._url = endpoint.url
        self._cloudformation: CloudFormationClient = endpoint.client("cloudformation")
        self._s3: S3Client = endpoint.client("s3")

    def outputs(self) -> dict[str, str] | None:
        """The outputs of the deployed stack; None if there is no complete deployment."""
        stack = self._stack()
        if stack is None or stack["StackStatus"] not in ("CREATE_COMPLETE", "UPDATE_COMPLETE"):
            return None
        return {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])}

    def deploy(self, package: Package, parameters: dict[str, str]) -> dict[str, str]:
        keys = self._upload(package)
        template = package.deployable(keys)
        emulator_quirks.concurrency_as_numbers(template, parameters)
        self._change(self._upload_template(template), parameters)
        self._wait()
        outputs = self.outputs()
        if outputs is None:
            raise DeployFailed(f"deploying template.yaml failed: {self._reasons()}")
        return outputs

    def _change(self, template_url: str, parameters: dict[str, str]) -> None:
        there = self._stack() is not None
        change = self._cloudformation.update_stack if there else self._cloudformation.create_stack
        try:
            change(
                StackName=STACK,
                TemplateURL=template_url,
                Parameters=[{"ParameterKey": key, "ParameterValue": parameters[key]} for key in parameters],
                Capabilities=["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"],
            )
        except ClientError as error:
            if "No updates are to be performed" not in str(error):
                raise DeployFailed(f"CloudFormation rejected template.yaml: {error}") from error

    def _upload(self, package: Package) -> dict[str, str]:
        """Upload each archive under a key with a hash of its content."""
        self._s3.create_bucket(Bucket=ARTIFACTS)
        keys = {}
        for name, archive in package.archives().items():
            keys[name] = f"{name}-{hashlib.sha256(archive).hexdigest()[:16]}.zip"
            self._s3.put_object(Bucket=ARTIFACTS, Key=keys[name], Body=archive)
        return keys

    def _upload_template(self, template: dict[str, Any]) -> str:
        """Upload the template, which is too large for a request, and return its URL."""
        body = json.dumps(template).encode()
        key = f"template-{hashlib.sha256(body).hexdigest()[:16]}.json"
        self._s3.put_object(Bucket=ARTIFACTS, Key=key, Body=body)
        return f"{self._url}/{ARTIFACTS}/{key}"

    def _stack(self) -> StackTypeDef | None:
        try:
            return self._cloudformation.describe_stacks(StackName=STACK)["Stacks"][0]
        except ClientError as error:
            if error.response["Error"]["Code"] != "ValidationError":
                raise
            return None

    def _wait(self) -> None:
        deadline = time.monotonic() + DEPLOY_SECONDS
        while time.monotonic() < deadline:
            stack = self._stack()
            if stack is None or not stack["StackStatus"].endswith("_IN_PROGRESS"):
                return
            time.sleep(0.03)
        raise DeployFailed(
            f"deploying template.yaml took more than {DEPLOY_SECONDS:.0f} s; does functions/setup respond?"
        )

    def _reasons(self) -> str:
        events = self._cloudformation.describe_stack_events(StackName=STACK)["StackEvents"]
        failed = [
            f"{event.get('LogicalResourceId')}: {event.get('ResourceStatusReason')}"
            for event in reversed(events)
            if event.get("ResourceStatus", "").endswith("FAILED")
        ]
        return "; ".join(failed) or "CloudFormation gave no reason"
