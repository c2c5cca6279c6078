"""Fixtures of the integration tests: a stack on moto and the ways to drive it."""

import pytest

from support.moto.cloud import Cloud
from support.scenarios.file_worker import FileWorker
from support.scenarios.job_runner import JobRunner
from support.scenarios.schedule_clock import ScheduleClock


@pytest.fixture
def runner(cloud: Cloud) -> JobRunner:
    return JobRunner(cloud)


@pytest.fixture
def file_worker(runner: JobRunner) -> FileWorker:
    return FileWorker(runner)


@pytest.fixture
def schedules(runner: JobRunner) -> ScheduleClock:
    return ScheduleClock(runner)
