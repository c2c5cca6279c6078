"""Structured logs and metrics, one service name for all."""

from __future__ import annotations

import sys

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit

# Not called `shardmill`: the loggers of the worker and the command line would be its children. On Lambda
# standard error is as good as standard output; elsewhere it leaves the data alone that a command prints.
logger = Logger(service="shardmill-functions", stream=sys.stderr)
metrics = Metrics(namespace="Shardmill", service="shardmill")


def count(**numbers: int) -> None:
    """Put numbers where CloudWatch finds them."""
    for name, number in numbers.items():
        metrics.add_metric(name, MetricUnit.Count, number)
    metrics.flush_metrics()
