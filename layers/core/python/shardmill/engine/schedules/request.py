"""The JobRequest for a time of a schedule: templates in its params are filled in, its steps are checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from shardmill.model.definition.fields import JobDefine
from shardmill.model.fault import Fault, fault
from shardmill.model.request import check_request
from shardmill.model.templates.render import check, names, render_value
from shardmill.model.time.schedule import Schedule
from shardmill.model.timestamps import from_ms, utc_text
from shardmill.store.definitions import Definition

KNOWN = ("job.dataTime", "job.name", "job.trigger")
"""The names that a template in the params of a schedule, or of its steps, can use."""


def request_of(
    schedule: Schedule, time: int, params: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, Any]:
    """Return the JobRequest for one time of a schedule. Raises TemplateError.

    `params`: further parameters, which are taken as they are.
    """
    moment = from_ms(time)
    trigger = schedule.trigger(moment)
    context = {"job": {"name": schedule.job_name, "trigger": trigger, "dataTime": utc_text(time)}}
    request: dict[str, Any] = {
        "jobName": schedule.job_name,
        "trigger": trigger,
        "dataTime": moment.isoformat(),
        "params": {**render_value(schedule.params, context, False), **params},
    }
    if schedule.steps:
        request["steps"] = [_filled_in(step, context) for step in schedule.steps]
    if schedule.priority is not None:
        request["priority"] = schedule.priority
    return request


def _filled_in(step: dict[str, Any], context: Mapping[str, Any]) -> dict[str, Any]:
    """Fill in the params of a step; its other settings may have templates for when the step starts."""
    if "params" not in step:
        return step
    return {**step, "params": render_value(step["params"], context, False)}


def request_faults(schedule: Schedule, saved: Definition) -> list[Fault]:
    """Return the faults of a schedule's requests: in templates, and in settings of steps."""
    faults = list(_template_faults(schedule.params, ("params",)))
    for at, step in enumerate(schedule.steps):
        faults += _template_faults(step.get("params"), ("steps", at, "params"))
    if schedule.steps:
        request = {
            "jobName": schedule.job_name,
            "params": dict.fromkeys(schedule.params, ""),
            "steps": schedule.steps,
        }
        faults += check_request(request, JobDefine.model_validate(saved.document))[1]
    return faults


def _template_faults(value: Any, place: tuple[str | int, ...]) -> Iterator[Fault]:
    if isinstance(value, str):
        others = [name for name in names(value) if name not in KNOWN]
        problems = check(value, ())
        if others and not problems:
            problems = [f"{others[0]} is not available here"]
        for problem in problems[:1]:
            text = f"{problem.split(':')[0]}; a schedule's params can use {', '.join(KNOWN)}"
            yield fault(place, "bad-template", text)
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from _template_faults(each, (*place, name))
    elif isinstance(value, list):
        for at, each in enumerate(value):
            yield from _template_faults(each, (*place, at))
