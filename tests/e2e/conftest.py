"""The laptop cloud that the tests of this folder share; it ends before tests of other folders run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.laptop import Laptop, start_laptop


@pytest.fixture(scope="package")
def shared_laptop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laptop]:
    with start_laptop(tmp_path_factory.mktemp("laptop")) as started:
        yield started


@pytest.fixture
def laptop(shared_laptop: Laptop) -> Iterator[Laptop]:
    """`shardmill dev` with one worker, one for each pytest process. A test's own workers end with it."""
    yield shared_laptop
    shared_laptop.end_workers()
