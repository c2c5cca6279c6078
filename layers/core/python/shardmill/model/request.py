"""JobRequest: a request to run a definition once, and its validation."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from shardmill.model.base import (
    Count,
    Limit,
    Model,
    Name,
    Params,
    Time,
    Trigger,
    User,
    Whole,
    whole_numbers,
)
from shardmill.model.definition.canonical import Canonical
from shardmill.model.definition.fields import MAX_STEPS, Info, JobDefine
from shardmill.model.definition.spelling import duration_to_deadline
from shardmill.model.definition.step_override import (
    OTHER_SPELLINGS as STEP_SPELLINGS,
)
from shardmill.model.definition.step_override import StepOverride, canonical_overrides, override_faults
from shardmill.model.fault import Fault, fault, faults_of, in_order
from shardmill.model.files import WorkName
from shardmill.model.plain_json import plain_faults
from shardmill.model.secrets.secret_fields import DataToken


class GivenFile(Model):
    """A file submitted with a job, for every step that reads a file of that name."""

    name: WorkName
    upload: str = Field(
        pattern=r"^[0-9a-f]{16}-[0-9a-f]{64}$", description="the id returned by POST /v1/uploads"
    )
    size: Count


class JobRequest(Model):
    """A request to run a definition once."""

    job_name: Name
    trigger: Trigger | None = None
    params: Params = Field(default_factory=dict)
    steps: list[StepOverride] = Field(default_factory=list, max_length=MAX_STEPS)
    data_time: Time | None = None
    after: Time | None = Field(default=None, description="the Job starts at this time or later")
    deadline_seconds: Limit | None = Field(
        default=None, description="seconds from the submission, or from `after`, to the deadline"
    )
    priority: Whole | None = None
    execute_user: User | None = None
    info: Info | None = None
    files: list[GivenFile] = Field(default_factory=list, max_length=100)
    data_token: DataToken | None = Field(
        default=None,
        exclude=True,  # not stored or compared with the request
        repr=False,
        description="a secret for the tasks of a Job with info.auth, to read private data with",
    )


OTHER_SPELLINGS: dict[type[BaseModel], tuple[str, ...]] = {JobRequest: ("duration",), **STEP_SPELLINGS}


def check_request(document: object, define: JobDefine | None) -> tuple[JobRequest | None, list[Fault]]:
    """Parse and validate a request; returns it, or None and all faults.

    `define`: the definition that it names, to check the overrides of its steps; None to skip that check.
    """
    if not isinstance(document, dict):
        return None, [fault((), "bad-type", "a request must be an object")]
    faults = plain_faults(document)
    if faults:
        return None, in_order(faults)
    canonical = _canonical(whole_numbers(document))
    request = None
    try:
        request = JobRequest.model_validate(canonical.document, strict=True, by_alias=True, by_name=False)
    except ValidationError as error:
        faults = faults_of(error, JobRequest, canonical.origins, OTHER_SPELLINGS)
    faults += canonical.faults
    if define is not None:
        params = canonical.document.get("params")
        own = params if isinstance(params, dict) else {}
        faults += override_faults(canonical, define, frozenset((*define.params, *own)))
    return (None, in_order(faults)) if faults else (request, [])


def _canonical(sent: dict[str, Any]) -> Canonical:
    result = Canonical()
    request = dict(sent)
    duration_to_deadline(result, request)
    if "steps" in request:
        request["steps"] = canonical_overrides(result, request["steps"])
    if isinstance(request.get("after"), dict):
        _after(result, request)
    result.document = request
    return result


def _after(result: Canonical, request: dict[str, Any]) -> None:
    """Convert a time that is given as an object with `timestamp`, in milliseconds, or `timeString`."""
    values = dict(result.fields_of(request, (), "after", ("timestamp", "timeString")))
    timestamp, text = values.get("timestamp"), values.get("timeString")
    if isinstance(timestamp, int) and text is None:
        try:
            moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=timestamp)
        except OverflowError:
            result.fault(("after", "timestamp"), "bad-time", "is outside the years 1 to 9999")
            return
        result.move(request, (), ("after", "timestamp"), "after", moment.isoformat())
    elif isinstance(text, str) and timestamp is None:
        result.move(request, (), ("after", "timeString"), "after", text)
    else:
        text = "requires either timestamp, in milliseconds since 1970, or timeString, an RFC 3339 time"
        result.fault(("after",), "bad-value", text)
