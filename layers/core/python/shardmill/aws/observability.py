"""Logs, metrics and traces of the functions: Powertools, set up once, and one decorator for every handler.

docs/operations.md lists every log action and metric.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

from aws_lambda_powertools import Logger, Metrics, Tracer
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.metrics.provider.cloudwatch_emf.cloudwatch import AmazonCloudWatchEMFProvider
from aws_lambda_powertools.utilities.typing import LambdaContext

from shardmill.aws.tracing import DaemonProvider


class _EmfProvider(AmazonCloudWatchEMFProvider):
    """Publishes nothing, and logs no warning, after an invocation without counts, as most are."""

    def flush_metrics(self, raise_on_empty_metrics: bool = False) -> None:
        if self.metric_set:
            super().flush_metrics(raise_on_empty_metrics)


_SERVICE = os.environ.get("POWERTOOLS_SERVICE_NAME", "shardmill")  # the stack: a dimension of the metrics

# The name is not a child of `shardmill`, which would inherit the handlers of the worker and the command line.
# Standard error, because commands that use the engine print their results on standard output.
logger = Logger(service="shardmill-functions", stream=sys.stderr)
metrics = Metrics(provider=_EmfProvider(namespace="Shardmill", service=_SERVICE))
tracer = Tracer(service=_SERVICE, provider=DaemonProvider(), auto_patch=False, disabled=False)

API_REQUEST = "requestContext.requestId"
EVENT = "id"
BATCH = "Records[0].messageId"

Handler = Callable[[dict[str, Any], LambdaContext], Any]


def observed(correlation_id_path: str, **keys: str) -> Callable[[Handler], Handler]:
    """Decorate a handler with Powertools' logger, tracer and metrics.

    `correlation_id_path` is a JMESPath expression. `keys` maps log keys, which are also annotations of the
    trace, to places in the event, for example `jobId="detail.jobId"`.
    """

    def decorate(handler: Handler) -> Handler:
        @wraps(handler)
        def with_keys(event: dict[str, Any], context: LambdaContext) -> Any:
            found = {name: _look_up(event, place) for name, place in keys.items()}
            add_keys(**{name: value for name, value in found.items() if value is not None})
            return handler(event, context)

        traced = tracer.capture_lambda_handler(
            metrics.log_metrics(with_keys), capture_response=False, capture_error=False
        )
        observed: Handler = logger.inject_lambda_context(
            traced, correlation_id_path=correlation_id_path, clear_state=True
        )
        return observed

    return decorate


def add_keys(**keys: Any) -> None:
    """Add keys to every later log line of this invocation, and to its trace as annotations."""
    logger.append_keys(**keys)
    for name, value in keys.items():
        tracer.put_annotation(name, value)


def count(**numbers: int) -> None:
    """Add to metrics, which are published when the invocation ends.

    Zeros are left out: CloudWatch bills a custom metric for each hour in which it has a value.
    """
    for name, number in numbers.items():
        if number:
            metrics.add_metric(name, MetricUnit.Count, number)


def measure(**milliseconds: int) -> None:
    """Add durations to metrics, which are published when the invocation ends."""
    for name, value in milliseconds.items():
        metrics.add_metric(name, MetricUnit.Milliseconds, value)


def _look_up(event: Any, place: str) -> Any:
    for name in place.split("."):
        event = event.get(name) if isinstance(event, dict) else None
    return event
