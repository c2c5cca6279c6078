"""List prices of AWS, the bill of counted operations, and the answer that shows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pydantic import Field

from shardmill.model.base import Answer

AS_OF = "2025-11"
REGION = "us-east-1"


class Price(NamedTuple):
    service: str
    usd_per_million: float


PRICES = {
    "Step Functions transitions": Price("Step Functions", 25.00),
    "Lambda requests": Price("Lambda", 0.20),
    "Lambda GB-seconds": Price("Lambda", 13.3334),  # arm64, the template's default
    "DynamoDB write units": Price("DynamoDB", 0.625),  # on demand
    "DynamoDB read units": Price("DynamoDB", 0.125),
    "SQS requests": Price("SQS", 0.40),
    "HTTP API requests": Price("API Gateway", 1.00),
    "EventBridge events": Price("EventBridge", 1.00),
}


class CostItem(Answer):
    service: str
    what: str
    count: float
    usd: float


class Cost(Answer):
    """The estimated cost on AWS by kind of operation, in list prices, without free tiers.

    Reading requests to the API, polling workers and their machines, logs and stored data are not included."""

    region: str = REGION
    prices_as_of: str = AS_OF
    usd: float
    usd_at_most: float = Field(description="if the messages of tasks are received in random order")
    items: list[CostItem]


def items_of(counts: Mapping[str, float]) -> list[CostItem]:
    """The price of each kind of operation that occurs."""
    return [
        CostItem(service=PRICES[what].service, what=what, count=count, usd=usd(what, count))
        for what, count in counts.items()
        if count
    ]


def usd(what: str, count: float) -> float:
    return count * PRICES[what].usd_per_million / 1e6


def total(counts: Mapping[str, float]) -> float:
    return sum(usd(what, count) for what, count in counts.items())


def bill(counts: Mapping[str, float], at_most: Mapping[str, float]) -> Cost:
    return Cost(usd=total(counts), usd_at_most=total(at_most), items=items_of(counts))
