"""Errors of the engine and of AWS, translated into the errors of a transport."""

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from shardmill.aws.queues import SendRefused
from shardmill.engine.errors import JobEnded, MillError, StaleSession, WorkerNotFound
from shardmill.model.errors import Transient
from shardmill.store.shards import BlockChanged
from shardmill.store.table import Contended, RowGone, Throttled
from shardmill.worker.transport.base import Refused, Stale, TransportError, Unreachable
from shardmill.worker.transport.engine import translate_errors


def translated(error: Exception) -> TransportError:
    with pytest.raises(TransportError) as caught, translate_errors():
        raise error
    assert caught.value.__cause__ is error
    return caught.value


@pytest.mark.parametrize(
    "error",
    [
        Transient("try later"),
        Contended("try later"),
        Throttled("try later"),
        BlockChanged("try later"),
        SendRefused("try later"),
        EndpointConnectionError(endpoint_url="http://x"),
        ClientError({"Error": {"Code": "InternalServerError", "Message": "try later"}}, "Query"),
    ],
)
def test_a_transient_error_is_retried_by_the_worker(error: Exception) -> None:
    """A worker retries `Unreachable`; any other error would end its thread."""
    assert type(translated(error)) is Unreachable


def test_an_engine_error_that_is_also_transient_is_retried() -> None:
    class Both(MillError, Transient):
        pass

    assert type(translated(Both("busy"))) is Unreachable


@pytest.mark.parametrize("kind", [StaleSession, WorkerNotFound])
def test_errors_about_the_session_are_stale(kind: type[MillError]) -> None:
    assert type(translated(kind("gone"))) is Stale


def test_other_errors_of_the_engine_are_refusals_with_their_code() -> None:
    error = MillError("no")
    refused = translated(error)
    assert isinstance(refused, Refused)
    assert (refused.code, refused.detail) == (error.code, "no")


def test_a_concurrently_deleted_job_does_not_end_the_worker() -> None:
    """The API answers 409 in this case; the worker reports again, and the task is unknown then."""
    refused = translated(RowGone(None))
    assert isinstance(refused, Refused)
    assert refused.code == JobEnded.code


def test_unexpected_exceptions_are_not_translated() -> None:
    with pytest.raises(KeyError), translate_errors():
        raise KeyError("x")
