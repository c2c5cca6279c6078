"""Guarantees of tests/conftest.py for every test."""

import os
import socket
import warnings

import boto3
import pytest

from support.waits import NeverHappened, run_until


def test_the_aws_settings_of_the_developer_are_removed() -> None:
    assert not {"AWS_PROFILE", "AWS_CA_BUNDLE", "AWS_ENDPOINT_URL"} & set(os.environ)
    assert os.environ["AWS_CONFIG_FILE"] == os.devnull
    session = boto3.Session()
    assert session.region_name == "us-east-1"
    assert session.available_profiles == []
    credentials = session.get_credentials()
    assert credentials is not None
    assert credentials.access_key == "testing"


def test_a_test_is_marked_by_its_folder_and_has_a_time_limit(request: pytest.FixtureRequest) -> None:
    assert request.node.get_closest_marker("unit") is not None
    assert request.node.get_closest_marker("timeout").args == (60,)


def test_warnings_are_errors() -> None:
    with pytest.raises(DeprecationWarning):
        warnings.warn("old", DeprecationWarning, stacklevel=1)


def test_network_access_is_blocked() -> None:
    with pytest.raises(AssertionError, match="tests have no network access"):
        socket.getaddrinfo("dynamodb.us-east-1.amazonaws.com", 443)
    assert socket.getaddrinfo("localhost", 80)


def test_run_until_returns_or_times_out() -> None:
    calls: list[int] = []
    assert run_until(lambda: len(calls) == 3, meanwhile=lambda: calls.append(1))
    with pytest.raises(NeverHappened, match=r"not true within 0\.02 s; last value \[\]"):
        run_until(list, timeout=0.02)
