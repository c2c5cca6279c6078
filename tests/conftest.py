"""What every test has: no AWS account, no way off this machine, a time limit, and support's fixtures."""

import gc
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

_FOLDERS = {
    "unit": 30,
    "contract": 30,
    "property": 60,
    "integration": 60,
    "faults": 120,
    "e2e": 120,
    "web": 120,
    "benchmarks": 600,
}
"""The folders under tests/, each of them a marker, and the seconds that a test of theirs may take."""

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


def _leave_the_developer_s_aws() -> None:
    """Before any client is made: nothing of the developer's account, profile or proxies counts."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "SHARDMILL_", "POWERTOOLS_")):
            del os.environ[name]
    os.environ.update(_DUMMY_AWS)


_leave_the_developer_s_aws()
gc.set_threshold(100_000, 20, 20)  # at Python's own 700, a sixth of all time goes into looking for cycles

from support.fixtures import cloud, faults, laptop  # noqa: E402  after the environment is clean
from support.processes import restore_signals  # noqa: E402

restore_signals()

__all__ = ["cloud", "faults", "laptop"]


def pytest_configure(config: pytest.Config) -> None:
    for folder in _FOLDERS:
        config.addinivalue_line("markers", f"{folder}: the tests of tests/{folder}")
    for line in _WARNINGS:
        config.addinivalue_line("filterwarnings", line)


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        folder = _folder(item.path)
        if folder is None:
            continue
        item.add_marker(folder)
        if folder == "e2e" and item.get_closest_marker("xdist_group") is None:
            # A cloud of their own is dear: the tests that share one stay together.
            shared = "laptop" in getattr(item, "fixturenames", ()) or "laptop" in item.name
            item.add_marker(pytest.mark.xdist_group("laptop" if shared else item.path.stem))
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(_FOLDERS[folder]))


def pytest_collection_finish() -> None:
    """What has been imported stays: no collection need look at it again."""
    gc.collect()
    gc.freeze()


def _folder(path: Path) -> str | None:
    here = Path(__file__).parent
    first = path.relative_to(here).parts[0] if path.is_relative_to(here) else ""
    return first if first in _FOLDERS else None


@pytest.fixture(autouse=True, scope="session")
def _no_way_off_this_machine() -> Iterator[None]:
    """A client that escaped its mock fails at once instead of asking a real service."""
    original = socket.getaddrinfo

    def loopback_only(host: Any, *args: Any, **kwargs: Any) -> Any:
        if host not in (None, "", "localhost", "127.0.0.1", "::1", b"localhost", b"127.0.0.1"):
            raise AssertionError(f"a test wanted to reach {host!r}: no test leaves this machine")
        return original(host, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", loopback_only)
        yield
