"""Fixtures for all tests. Heavy imports are inside the fixtures so that unit tests start quickly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from support.aws_rules.faults import Faults
    from support.moto.cloud import Cloud


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    """A new stack on moto."""
    from support.moto.moto_cloud import moto_cloud

    with moto_cloud() as started:
        yield started


@pytest.fixture
def faults() -> Iterator[Faults]:
    """AWS's rules for all calls of the test, and planned faults."""
    from support.aws_rules.faults import Faults

    with Faults() as rules:
        yield rules
