"""Addresses inside the API, made of names."""

from __future__ import annotations

import re
from urllib.parse import quote

from pydantic import TypeAdapter, ValidationError

from shardmill.client.errors import BadName
from shardmill.model.base import Name, Trigger

_NAME: TypeAdapter[str] = TypeAdapter(Name)
_TRIGGER: TypeAdapter[str] = TypeAdapter(Trigger)
_WORKER_ID = re.compile(r"[a-z2-7]{8}")


def word(text: str, field: str, kind: TypeAdapter[str] = _NAME) -> str:
    """A part of an address; what can name nothing is not even asked for."""
    try:
        return quote(kind.validate_python(text, strict=True), safe="")
    except ValidationError as error:
        raise BadName(f"{text!r} cannot be a {field}: it {error.errors()[0]['msg']}") from None


def job_path(job_name: str, trigger: str) -> str:
    return f"/v1/jobs/{word(job_name, 'jobName')}/{word(trigger, 'trigger', _TRIGGER)}"


def step_path(job_name: str, trigger: str, step_name: str) -> str:
    return f"{job_path(job_name, trigger)}/steps/{word(step_name, 'stepName')}"


def task_path(job_name: str, trigger: str, step_name: str, index: int) -> str:
    return f"{step_path(job_name, trigger, step_name)}/tasks/{int(index)}"


def schedules_path(job_name: str | None) -> str:
    return "/v1/schedules" if job_name is None else f"/v1/schedules/{word(job_name, 'jobName')}"


def schedule_path(job_name: str, schedule_id: str) -> str:
    return f"{schedules_path(job_name)}/{word(schedule_id, 'scheduleId')}"


def backfill_path(job_name: str, schedule_id: str, number: int) -> str:
    return f"{schedule_path(job_name, schedule_id)}/backfills/{int(number)}"


def worker_path(worker_id: str) -> str:
    return f"/v1/workers/{quote(worker_id, safe='')}"


def looks_like_an_id(text: str) -> bool:
    """Whether a worker may have this id; it may as well be a name."""
    return _WORKER_ID.fullmatch(text) is not None
