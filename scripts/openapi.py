"""Writes the OpenAPI document that the API serves; with --check, only says whether it is up to date."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pydantic.json_schema import models_json_schema

from shardmill.api.app import app
from shardmill.api.lease import lease_work
from shardmill.api.resolver import OPENAPI
from shardmill.model.base import Answer
from shardmill.model.definition import JobDefine
from shardmill.model.fault import Fault
from shardmill.model.job import JobRequest

REF = "#/components/schemas/{model}"
BODIES = {
    ("/v1/definitions/{job_name}", "put"): "JobDefine",
    ("/v1/definitions:validate", "post"): "JobDefine",
    ("/v1/jobs", "post"): "JobRequest",
}


class Problem(Answer):
    """RFC 9457: what was refused and why; `code` is stable."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    faults: list[Fault] = []


def document() -> dict[str, Any]:
    app.post("/v1/work:lease", tags=["work"])(lease_work)
    text = app.get_openapi_json_schema(
        title="Shardmill",
        version="1",
        description="Runs sharded batch jobs on AWS. Every refusal is application/problem+json.",
    )
    found: dict[str, Any] = json.loads(text)
    found["servers"] = [{"url": "/"}]
    _, extra = models_json_schema(
        [(JobDefine, "validation"), (JobRequest, "validation"), (Problem, "serialization")], ref_template=REF
    )
    schemas = found["components"]["schemas"]
    schemas |= {name: schema for name, schema in extra["$defs"].items() if name not in schemas}
    found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    found["security"] = [{"token": []}]
    found["paths"]["/v1/health"]["get"]["security"] = []
    for (path, method), model in BODIES.items():
        ref = {"$ref": f"#/components/schemas/{model}"}
        found["paths"][path][method]["requestBody"]["content"] = {"application/json": {"schema": ref}}
    for operations in found["paths"].values():
        for operation in operations.values():
            _problems(operation["responses"])
    return found


def _problems(responses: dict[str, Any]) -> None:
    responses.pop("422", None)
    responses["default"] = {
        "description": "refused",
        "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }


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
