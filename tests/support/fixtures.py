"""Fixtures for all tests. Heavy imports are inside the fixtures so that unit tests start quickly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from support.aws_rules.faults import Faults
    from support.laptop import Laptop
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


@pytest.fixture(scope="session")
def laptop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laptop]:
    """`shardmill dev`, one for each process that runs tests, with one worker."""
    from support.laptop import start_laptop

    with start_laptop(tmp_path_factory.mktemp("laptop")) as started:
        yield started
