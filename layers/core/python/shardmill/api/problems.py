"""Errors as problem+json (RFC 9457): the only mapping from exceptions to HTTP status codes."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from http import HTTPStatus
from typing import Any

from shardmill.engine import errors
from shardmill.engine.access import errors as access
from shardmill.model.errors import Transient
from shardmill.model.fault import Fault, code_and_message, did_you_mean, fault, in_order

MEDIA_TYPE = "application/problem+json"
_PLACES = ("body", "query", "path", "header")

STATUS: dict[type[errors.MillError], HTTPStatus] = {
    errors.Invalid: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.NotFound: HTTPStatus.NOT_FOUND,
    errors.Conflict: HTTPStatus.CONFLICT,
    errors.FileForbidden: HTTPStatus.FORBIDDEN,
    errors.PreconditionFailed: HTTPStatus.PRECONDITION_FAILED,
    errors.TooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    errors.Busy: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.Internal: HTTPStatus.INTERNAL_SERVER_ERROR,
    access.Unauthorized: HTTPStatus.UNAUTHORIZED,
    access.Forbidden: HTTPStatus.FORBIDDEN,
    access.TooManyRequests: HTTPStatus.TOO_MANY_REQUESTS,
    errors.BadRequest: HTTPStatus.BAD_REQUEST,
    errors.BodyTooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    errors.UnsupportedMedia: HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    errors.NoSuchPath: HTTPStatus.NOT_FOUND,
    errors.MethodNotAllowed: HTTPStatus.METHOD_NOT_ALLOWED,
}


def status_of(error: errors.MillError) -> HTTPStatus:
    for kind in type(error).__mro__:
        if kind in STATUS:
            return STATUS[kind]
    return HTTPStatus.INTERNAL_SERVER_ERROR


def known_error(error: Exception) -> errors.MillError | None:
    """Translate an infrastructure error; return None if it is unexpected."""
    from shardmill.aws.clients import is_temporary
    from shardmill.aws.secrets import SecretUnavailable
    from shardmill.store.table import RowGone  # imports botocore, which a request without errors may not need

    if isinstance(error, Transient):
        return errors.Busy("the rows are being modified concurrently or AWS throttled the call; retry")
    if is_temporary(error):
        return errors.Busy("AWS throttled a call or did not answer it; retry")
    if isinstance(error, SecretUnavailable):
        return errors.Busy(f"{error}; retry")
    if isinstance(error, RowGone):
        return errors.JobEnded(errors.JOB_DELETED)
    return None


def internal_error(request_id: str) -> errors.Internal:
    error = errors.Internal(
        "this is a defect in Shardmill, or AWS refused a call; see the function's log for the request id"
    )
    error.extra = {"requestId": request_id}
    return error


def not_valid(found: Iterable[Mapping[str, Any]]) -> errors.RequestInvalid:
    """Translate Pydantic's errors to faults, as in documents."""
    faults = []
    for each in found:
        path = tuple(each["loc"][1:] if each["loc"][0] in _PLACES else each["loc"])
        faults.append(fault(path, *code_and_message(each["type"], each["msg"], path)))
    return _invalid(faults)


def unknown_queries(unknown: Iterable[str], known: Collection[str]) -> errors.RequestInvalid:
    return _invalid(
        fault((name,), "unknown-parameter", f"unknown parameter {name[:64]!r}{did_you_mean(name, known)}")
        for name in unknown
    )


def _invalid(faults: Iterable[Fault]) -> errors.RequestInvalid:
    return errors.RequestInvalid(
        "the request is not valid", faults=[each.model_dump() for each in in_order(faults)]
    )


def problem(error: errors.MillError) -> dict[str, Any]:
    status = status_of(error)
    body: dict[str, Any] = {
        "type": f"urn:shardmill:problem:{error.code}",
        "title": status.phrase,
        "status": status.value,
        "code": error.code,
        "detail": error.detail,
    }
    if error.faults:
        body["faults"] = error.faults
    return body | error.extra


def answer(error: errors.MillError, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The response of a Lambda function behind an HTTP API."""
    return {
        "statusCode": status_of(error).value,
        "headers": {"content-type": MEDIA_TYPE, **(headers or {}), **error.headers},
        "body": json.dumps(problem(error)),
        "isBase64Encoded": False,
    }
