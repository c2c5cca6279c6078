"""Deploy a stack once in a process; later clouds start with a copy of what AWS contained then."""

from __future__ import annotations

import copy
import copyreg
from collections.abc import Iterator
from dataclasses import dataclass, replace
from threading import Condition
from typing import Any

from moto.core.base_backend import BaseBackend
from moto.dynamodb.models import dynamodb_backends
from moto.events.models import events_backends
from moto.s3.models import s3_backends
from moto.sqs.models import SQSBackend, sqs_backends
from moto.ssm.models import ParameterDict, ssm_backends
from moto.stepfunctions.parser.models import stepfunctions_parser_backends

from support.fidelity.recorder import recorder
from support.moto.stack import ACCOUNT, REGION, Stack


def _parts(parameters: ParameterDict) -> tuple[Any, ...]:
    own = (parameters.account_id, parameters.region_name)
    return ParameterDict, own, None, None, iter(parameters.items())


copyreg.pickle(ParameterDict, _parts)  # as a subclass of defaultdict, it cannot be copied


@dataclass(frozen=True)
class Deployment:
    """A stack, and the contents of moto's backends after its deployment."""

    stack: Stack
    contents: tuple[dict[str, Any], ...]

    @classmethod
    def of(cls, stack: Stack) -> Deployment:
        contents = tuple(_copied(backend, vars(backend)) for backend in _backends())
        return cls(_copied_stack(stack), contents)

    def restore(self) -> Stack:
        """Fill the empty backends, and return a stack that the caller may change."""
        for backend, contents in zip(_backends(), self.contents, strict=True):
            vars(backend).update(_copied(backend, contents))
        for name, bucket in s3_backends[ACCOUNT]["aws"].buckets.items():
            s3_backends.bucket_accounts[name] = (bucket.partition, ACCOUNT)
        recorder.contents_restored(self.stack.tables)
        return _copied_stack(self.stack)


def _backends() -> Iterator[BaseBackend]:
    yield s3_backends[ACCOUNT]["aws"]
    yield dynamodb_backends[ACCOUNT][REGION]
    yield events_backends[ACCOUNT][REGION]
    yield sqs_backends[ACCOUNT][REGION]
    yield ssm_backends[ACCOUNT][REGION]
    yield stepfunctions_parser_backends[ACCOUNT][REGION]


def _copied(backend: BaseBackend, contents: dict[str, Any]) -> dict[str, Any]:
    instead: dict[int, Any] = {}
    if isinstance(backend, SQSBackend):
        instead = {id(queue._messages_lock): Condition() for queue in contents["queues"].values()}
    return copy.deepcopy(contents, instead)


def _copied_stack(stack: Stack) -> Stack:
    """The document and the clients stay shared: nothing changes them."""
    template = replace(
        stack.template,
        names=dict(stack.template.names),
        attributes=dict(stack.template.attributes),
        unmodelled=set(stack.template.unmodelled),
    )
    return replace(
        stack,
        template=template,
        machines=dict(stack.machines),
        functions=dict(stack.functions),
        timeouts=dict(stack.timeouts),
        reserved=dict(stack.reserved),
        retries=dict(stack.retries),
        tables=list(stack.tables),
    )
