"""A complete Shardmill stack on moto, in this process: template.yaml, the real handlers, the real ASL."""

import hashlib
import logging
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import _lru_cache_wrapper, cache
from pathlib import Path
from random import Random
from unittest.mock import patch

import boto3
from botocore.client import BaseClient
from botocore.config import Config
from botocore.credentials import Credentials
from moto import mock_aws
from moto.core.config import DefaultConfig
from moto.sqs.models import sqs_backends

from shardmill.aws import clients
from support.aws_rules.call import running_function
from support.aws_rules.lambda_concurrency import LambdaConcurrency
from support.aws_rules.permissions import Permissions
from support.fakes.lambda_server import Functions, Handler, lambda_server, load_handlers
from support.fidelity.recorder import recorder
from support.moto.cloud import Cloud
from support.moto.deployment import Deployment
from support.moto.direct_requests import direct_requests
from support.moto.http_api import HttpApi
from support.moto.presigned_sqs import SIGNING_KEY
from support.moto.repairs import join_execution_threads, repaired_moto
from support.moto.service_models import service_models_read_once
from support.moto.speedups import faster_moto
from support.moto.stack import ACCOUNT, REGION, Clients, Stack
from support.moto.template import Template
from support.paths import PROJECT
from support.watch import unwatch

STACK = "shardmill-test"
TOKEN = "test-admin-token"
_END_SECONDS = 10.0
_CACHING_CLIENTS = ("shardmill.aws", "shardmill.engine", "shardmill.worker")

_PSEUDO = {
    "AWS::AccountId": ACCOUNT,
    "AWS::Partition": "aws",
    "AWS::Region": REGION,
    "AWS::StackId": f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/{STACK}/test",
    "AWS::StackName": STACK,
    "AWS::URLSuffix": "amazonaws.com",
}
_deployments: dict[tuple[tuple[str, str], ...], Deployment] = {}
"""The deployments of the project in this process, by their parameters."""
_MOTO: DefaultConfig = {
    "core": {"passthrough": {"services": ["lambda"], "urls": ["http://127.0.0.1.*"]}},
    "stepfunctions": {"execute_state_machine": True},
}


@contextmanager
def moto_cloud(
    root: Path = PROJECT,
    handlers: Mapping[str, Handler] | None = None,
    parameters: Mapping[str, str] | None = None,
) -> Iterator[Cloud]:
    """Deploy `root` to moto; `handlers` replaces its functions, `parameters` fills its template."""
    hashed = {"AdminTokenHash": hashlib.sha256(TOKEN.encode()).hexdigest()}
    with ExitStack() as resources:
        resources.enter_context(_quiet_moto())
        resources.enter_context(service_models_read_once())
        resources.enter_context(faster_moto())
        resources.enter_context(mock_aws(config=_MOTO))
        if not resources.enter_context(recorder.recording()):
            resources.enter_context(direct_requests())
        resources.enter_context(repaired_moto())
        deploys_project = handlers is None and root == PROJECT
        given = hashed | dict(parameters or {})
        deployment = _deployments.get(tuple(sorted(given.items()))) if deploys_project else None
        if deployment:
            stack = deployment.restore()
        else:
            stack = Stack(root, Template.read(root / "template.yaml", _PSEUDO, given), _clients())
            stack.create()
        environment = _as_on_lambda(stack.environment())
        resources.enter_context(patch.dict(os.environ, environment))
        permissions = None
        if deploys_project:
            permissions = Permissions(stack.statements(), ACCOUNT, REGION)
            resources.enter_context(permissions.enforced())
        resources.enter_context(_cold_caches())
        loaded = load_handlers(root) if handlers is None else handlers
        concurrency = LambdaConcurrency(reserved=stack.reserved)
        functions = Functions(
            loaded,
            stack.timeouts,
            stack.functions,
            concurrency,
            retries=stack.retries,
            on_failure=stack.failure_destinations(),
        )
        server = resources.enter_context(lambda_server(functions))
        resources.enter_context(patch.dict(os.environ, {"AWS_ENDPOINT_URL_LAMBDA": server.url}))
        api = HttpApi(stack.routes(), functions.invoke)
        cloud = Cloud(stack, functions, api, environment, TOKEN, permissions)
        resources.callback(_end_executions, cloud)
        if not deployment:
            cloud.run_custom_resources(server)
            cloud.capture_events()
            if deploys_project:
                _deployments[tuple(sorted(given.items()))] = Deployment.of(stack)
        yield cloud


def shuffle_queues(random: Random) -> None:
    """Mix the messages in all queues: fully scattered, as SQS may deliver them."""
    for queue in sqs_backends[ACCOUNT][REGION].queues.values():
        random.shuffle(queue._messages)


@cache
def _clients() -> Clients:
    """Made once a process: moto answers them in whichever mock is on."""

    def make(service: str) -> BaseClient:
        client: BaseClient = boto3.client(service, region_name=REGION)  # type: ignore[call-overload]
        unwatch(client)
        return client

    return Clients(**{name: make(name) for name in Clients.__dataclass_fields__})  # type: ignore[arg-type]


def _as_on_lambda(variables: Mapping[str, str]) -> dict[str, str]:
    return {"AWS_REGION": REGION, "AWS_DEFAULT_REGION": REGION, **variables}


@contextmanager
def _quiet_moto() -> Iterator[None]:
    """moto prints the whole parse tree of a state that fails; the execution's cause says enough."""
    logger = logging.getLogger("moto.stepfunctions")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


class _Session:
    """Creates each client of the system under test once per process: moto answers it in any mock."""

    def __init__(self) -> None:
        self._created: dict[str, BaseClient] = {}

    def client(self, service: str, *, config: Config) -> BaseClient:
        if service not in self._created or service == "lambda":  # each cloud has another Lambda endpoint
            self._created[service] = boto3.Session().client(service, config=config)  # type: ignore[call-overload]
        return self._created[service]

    def get_credentials(self) -> Credentials:
        """Those of the running function; the session token names it, for `presigned_sqs`."""
        return Credentials(*SIGNING_KEY, running_function.get() or "test")


_session = _Session()


@contextmanager
def _cold_caches() -> Iterator[None]:
    """Clear what a warm function caches: it belongs to one cloud only."""
    _clear_caches()
    try:
        with patch.object(clients, "_session", lambda: _session):
            yield
    finally:
        _clear_caches()


def _clear_caches() -> None:
    """Clients and what holds them. Other packages cache parsed templates, routes and plans of rows."""
    for name, module in list(sys.modules.items()):
        if name.startswith(_CACHING_CLIENTS):
            for value in list(vars(module).values()):
                if isinstance(value, _lru_cache_wrapper) and value.__module__.startswith(_CACHING_CLIENTS):
                    value.cache_clear()


def _end_executions(cloud: Cloud) -> None:
    """Stop executions until none is left: a running function may start more."""
    deadline = time.monotonic() + _END_SECONDS
    while True:
        for execution in cloud.executions(status="RUNNING"):
            cloud.clients.stepfunctions.stop_execution(executionArn=execution["executionArn"])
        left = join_execution_threads(timeout=0.2)
        if not left:
            return
        if time.monotonic() > deadline:
            raise RuntimeError(f"{len(left)} threads of executions outlived the test's cloud: {left}")
