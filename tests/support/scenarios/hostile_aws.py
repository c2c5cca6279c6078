"""Faults of AWS for a scenario on moto: stale reads, throttled Lambda invocations, unreliable queues."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from support.aws_rules.faults import Faults
from support.aws_rules.stale_reads import StaleReads, stale_reads
from support.moto.cloud import Cloud

STALE_MS = 100
THROTTLED = 0.25
"""A quarter of the invocations: the retries of a state machine suffice."""


@dataclass(frozen=True)
class AwsFaults:
    """The faults that occurred so far."""

    cloud: Cloud
    stale: StaleReads

    @property
    def throttles(self) -> int:
        return self.cloud.functions.concurrency.refused


@contextmanager
def hostile_aws(cloud: Cloud, faults: Faults, seed: int) -> Iterator[AwsFaults]:
    """Apply the rules to the calls of the system under test; `seed` chooses those that are affected."""
    with (
        stale_reads(faults.add_rule, seed=seed, within_ms=STALE_MS) as stale,
        cloud.functions.concurrency.often_exhausted(THROTTLED, seed),
    ):
        faults.unreliable_queues(seed)
        yield AwsFaults(cloud, stale)


@contextmanager
def hostile_calls(cloud: Cloud, seed: int) -> Iterator[AwsFaults]:
    """Apply the rules to the calls in the block, for a test without other faults in it."""
    with Faults() as faults, hostile_aws(cloud, faults, seed) as occurred:
        yield occurred
