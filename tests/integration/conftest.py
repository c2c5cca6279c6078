import pytest

from support.cloud import Cloud
from support.play import Play


@pytest.fixture
def play(cloud: Cloud) -> Play:
    return Play(cloud)
