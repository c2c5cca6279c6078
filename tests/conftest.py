"""Configuration of all tests: no AWS account, no network access, a time limit, and shared fixtures."""

import gc
import os
import socket
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import hypothesis
import pytest
from hypothesis import HealthCheck

_FOLDERS = {
    "unit": 60,
    "contract": 60,
    "property": 180,
    "integration": 180,
    "faults": 300,
    "e2e": 300,
    "web": 300,
    "benchmarks": 600,
}
"""The folders of tests/, each also a marker, and the seconds after which a test of them counts as hanging."""

_WARNINGS = (
    "error",
    # moto and the ASL parser inside it
    "ignore::DeprecationWarning:moto.*",
    "ignore::DeprecationWarning:antlr4.*",
    # botocore, while it still uses utcnow on some paths
    "ignore:datetime.datetime.utcnow:DeprecationWarning:botocore.*",
)

_DUMMY_AWS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_SESSION_TOKEN": "testing",
    "AWS_REGION": "us-east-1",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
}


def _remove_developer_settings() -> None:
    """Remove the developer's account, profile, settings and time zone before any client is created."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "SHARDMILL_", "POWERTOOLS_")) or name in ("NO_COLOR", "FORCE_COLOR"):
            del os.environ[name]
    os.environ.update(_DUMMY_AWS, TZ="UTC")
    time.tzset()


def _keep_bytecode() -> None:
    """Hundreds of child processes import the package; without bytecode, each of them compiles it."""
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


_remove_developer_settings()
_keep_bytecode()
gc.set_threshold(100_000, 20, 20)  # with the default of 700, the collector takes a sixth of all time

from support.browser import WHY_NOT  # noqa: E402
from support.failed_tests import pytest_runtest_logreport  # noqa: E402
from support.fidelity.suite import TESTS as FIDELITY_TESTS  # noqa: E402
from support.fixtures import cloud, faults  # noqa: E402  after the environment is clean
from support.permission_use import PermissionUse  # noqa: E402
from support.processes import restore_signals  # noqa: E402

restore_signals()

__all__ = ["cloud", "faults", "pytest_runtest_logreport"]


def pytest_addoption(parser: pytest.Parser) -> None:
    help = "record the requests to DynamoDB of the tests in tests/support/fidelity/suite.py in this folder"
    parser.addoption("--record-dynamodb", metavar="FOLDER", help=help)
    help = "also for a part of the tests, fail if template.yaml has permissions that none of them needed"
    parser.addoption("--check-permissions", action="store_true", help=help)


def pytest_configure(config: pytest.Config) -> None:
    if folder := config.getoption("--record-dynamodb"):
        from support.fidelity.recorder import recorder

        recorder.folder, recorder.tests = Path(folder), FIDELITY_TESTS
        recorder.folder.mkdir(parents=True, exist_ok=True)
    config.pluginmanager.register(PermissionUse(config))
    # No test depends on how fast the machine is, so no example has a deadline.
    hypothesis.settings.register_profile(
        "shardmill", deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    hypothesis.settings.load_profile("shardmill")
    for folder in _FOLDERS:
        config.addinivalue_line("markers", f"{folder}: the tests of tests/{folder}")
    config.addinivalue_line("markers", "fidelity: recorded by make fidelity")
    for line in _WARNINGS:
        config.addinivalue_line("filterwarnings", line)


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        folder = _folder(item.path)
        if folder is None:
            continue
        item.add_marker(folder)
        if item.path.relative_to(Path(__file__).parent).as_posix() in FIDELITY_TESTS:
            item.add_marker("fidelity")
        if folder == "e2e" and item.get_closest_marker("xdist_group") is None:
            # Starting a laptop cloud is slow: tests that share one run in one process.
            shared = "laptop" in getattr(item, "fixturenames", ()) or "laptop" in item.name
            item.add_marker(pytest.mark.xdist_group("laptop" if shared else item.path.stem))
        if folder == "web":
            item.add_marker(pytest.mark.xdist_group("web"))  # they share a browser and a laptop cloud
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(_FOLDERS[folder]))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say that the browser tests did not run, which the number of skipped tests would hide."""
    skipped = terminalreporter.stats.get("skipped", [])
    if any(WHY_NOT in str(report.longrepr) for report in skipped):
        terminalreporter.write_line(WHY_NOT, red=True, bold=True)


def pytest_collection_finish() -> None:
    """Exclude imported objects from later garbage collections."""
    gc.collect()
    gc.freeze()


def _folder(path: Path) -> str | None:
    here = Path(__file__).parent
    first = path.relative_to(here).parts[0] if path.is_relative_to(here) else ""
    return first if first in _FOLDERS else None


@pytest.fixture(autouse=True, scope="session")
def _no_network() -> Iterator[None]:
    """Raise an error in a client that is not mocked instead of calling a real service."""
    original = socket.getaddrinfo

    def loopback_only(host: Any, *args: Any, **kwargs: Any) -> Any:
        if host not in (None, "", "localhost", "127.0.0.1", "::1", b"localhost", b"127.0.0.1"):
            raise AssertionError(f"blocked a connection to {host!r}: tests have no network access")
        return original(host, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", loopback_only)
        yield


@pytest.fixture(autouse=True, scope="session")
def _certificates_read_once() -> Iterator[None]:
    """Reading the certificates of all authorities takes longer than most tests; each client does it."""
    create = httpx.create_ssl_context

    @cache
    def context(files: tuple[str | None, ...], *args: Any, **kwargs: Any) -> Any:
        return create(*args, **kwargs)

    def create_once(*args: Any, **kwargs: Any) -> Any:
        return context((os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")), *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("httpx._transports.default.create_ssl_context", create_once)
        yield
