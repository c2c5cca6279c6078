"""Write the OpenAPI document that the API serves; with --check, only check that it is up to date."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

from openapi_requests import (
    describe_documents,
    describe_optional_body,
    describe_parameters,
    describe_validation,
)
from pydantic.json_schema import models_json_schema

from shardmill.api.app import make_app
from shardmill.api.meta import OPENAPI
from shardmill.api.routes import ROUTES
from shardmill.model.base import Answer
from shardmill.model.definition.fields import JobDefine
from shardmill.model.fault import Fault
from shardmill.model.request import JobRequest
from shardmill.model.time.schedule import Schedule

REF = "#/components/schemas/{model}"
BODIES = {
    ("/v1/definitions/{job_name}", "put"): "JobDefine",
    ("/v1/jobs", "post"): "JobRequest",
    ("/v1/schedules/{job_name}/{schedule_id}", "put"): "Schedule",
}
# Successful responses other than 200 alone.
SUCCESSES = {
    ("/v1/definitions/{job_name}", "put"): {"200": "the next version", "201": "the first version"},
    ("/v1/groups/{name}", "put"): {"200": "changed", "201": "created"},
    ("/v1/groups:resume", "post"): {"204": "resumed"},
    ("/v1/groups:suspend", "post"): {"204": "suspended"},
    ("/v1/jobs/{job_name}/{trigger}", "delete"): {"200": "of a dry run", "204": "deleted"},
    ("/v1/jobs", "post"): {"200": "the same request was made before", "202": "a new Job"},
    ("/v1/schedules/{job_name}/{schedule_id}", "put"): {"200": "changed", "201": "created"},
    ("/v1/schedules/{job_name}/{schedule_id}:fire", "post"): {"200": "an existing Job", "202": "a new Job"},
    ("/v1/schedules/{job_name}/{schedule_id}:backfill", "post"): {"200": "of a dry run", "202": "started"},
    ("/v1/tokens", "post"): {"201": "created"},
    ("/v1/workers", "post"): {"201": "registered"},
}
STATEFUL = ("/v1/definitions/", "/v1/groups", "/v1/jobs", "/v1/schedules", "/v1/work")
REFERS_TO_OTHERS = ("/v1/jobs", "/v1/schedules", "/v1/work")


class Problem(Answer):
    """An error (RFC 9457); `code` is stable."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    faults: list[Fault] = []


def document() -> dict[str, Any]:
    text = make_app(route for route in ROUTES if not route.awe).get_openapi_json_schema(
        title="Shardmill",
        version="1",
        description="Runs sharded batch jobs on AWS. Errors are application/problem+json.",
    )
    found: dict[str, Any] = json.loads(text)
    found["servers"] = [{"url": "/"}]
    _, extra = models_json_schema(
        [
            (JobDefine, "validation"),
            (JobRequest, "validation"),
            (Schedule, "validation"),
            (Problem, "serialization"),
        ],
        ref_template=REF,
    )
    schemas = found["components"]["schemas"]
    schemas |= {name: schema for name, schema in extra["$defs"].items() if name not in schemas}
    describe_documents(schemas, extra["$defs"])
    found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    found["security"] = [{"token": []}]
    for route in ROUTES:
        if route.documented:
            path = route.path.replace("<", "{").replace(">", "}")
            operation = found["paths"][path][route.method.lower()]
            operation["security"] = [] if route.public else [{"token": [route.scope]}]
    for (path, method), model in BODIES.items():
        ref = {"$ref": f"#/components/schemas/{model}"}
        found["paths"][path][method]["requestBody"]["content"] = {"application/json": {"schema": ref}}
    describe_validation(found["paths"]["/v1/definitions:validate"]["post"])
    for path, operations in found["paths"].items():
        for method, operation in operations.items():
            describe_parameters(operation)
            describe_optional_body(operation)
            operation["responses"] = _responses(path, method, operation)
    return found


def _responses(path: str, method: str, operation: dict[str, Any]) -> dict[str, Any]:
    answer = operation["responses"]["200"]
    usual = {"204": "deleted"} if method == "delete" else {"200": answer["description"]}
    successes = {
        status: {"description": text} | ({} if status == "204" else {"content": answer["content"]})
        for status, text in SUCCESSES.get((path, method), usual).items()
    }
    error = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    problems = {
        str(status.value): {"description": status.phrase, "content": error}
        for status in _errors(path, method, operation)
    }
    return successes | problems | {"default": {"description": "error", "content": error}}


def _errors(path: str, method: str, operation: dict[str, Any]) -> Iterator[HTTPStatus]:
    """The error statuses specific to an operation; any other error is the default response."""
    places = {each["in"] for each in operation.get("parameters", [])}
    has_body = "requestBody" in operation
    if operation["security"]:
        yield HTTPStatus.UNAUTHORIZED
        yield HTTPStatus.FORBIDDEN
    if has_body:
        yield from (
            HTTPStatus.BAD_REQUEST,
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        )
    yield HTTPStatus.UNPROCESSABLE_ENTITY
    if method != "get" and path.startswith(STATEFUL):
        yield HTTPStatus.CONFLICT
    if "header" in places:
        yield HTTPStatus.PRECONDITION_FAILED
    if ("path" in places and method != "put") or (has_body and path.startswith(REFERS_TO_OTHERS)):
        yield HTTPStatus.NOT_FOUND


def main() -> int:
    wanted = json.dumps(document(), indent=1, sort_keys=True) + "\n"
    if "--check" in sys.argv:
        if OPENAPI.read_text() == wanted:
            return 0
        sys.stderr.write("the OpenAPI document is out of date; run `make openapi`\n")
        return 1
    Path(OPENAPI).write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
