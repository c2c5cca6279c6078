"""Structured logs and metrics, one service name for all."""

from __future__ import annotations

from aws_lambda_powertools import Logger, Metrics

logger = Logger(service="shardmill")
metrics = Metrics(namespace="Shardmill", service="shardmill")
