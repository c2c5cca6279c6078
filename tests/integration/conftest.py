import pytest

from support.moto.cloud import Cloud
from support.scenarios.job_runner import JobRunner


@pytest.fixture
def runner(cloud: Cloud) -> JobRunner:
    return JobRunner(cloud)
