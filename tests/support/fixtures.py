"""The fixtures that every test may ask for."""

from collections.abc import Iterator

import pytest

from support.cloud import Cloud
from support.faults import Faults
from support.laptop import Laptop, start_laptop
from support.moto_cloud import moto_cloud


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    """The whole stack on moto, empty."""
    with moto_cloud() as started:
        yield started


@pytest.fixture
def faults() -> Iterator[Faults]:
    """AWS's harsher rules, for every call that the test causes from here on."""
    with Faults() as rules:
        yield rules


@pytest.fixture(scope="session")
def laptop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laptop]:
    """`shardmill dev`, one for each process that runs tests, with one worker."""
    with start_laptop(tmp_path_factory.mktemp("laptop")) as started:
        yield started
