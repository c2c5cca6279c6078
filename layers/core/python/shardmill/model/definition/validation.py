"""Validation of a definition: all faults at once, with pointers into the document as it was sent."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from shardmill.model.base import whole_numbers
from shardmill.model.definition.canonical import Canonical
from shardmill.model.definition.command import masked
from shardmill.model.definition.consistency import graph_faults, step_faults, upstream_of
from shardmill.model.definition.fields import MAX_STEPS, JobDefine
from shardmill.model.definition.references import templates
from shardmill.model.definition.spelling import OTHER_SPELLINGS, canonical
from shardmill.model.fault import Fault, as_sent, fault, faults_of, in_order
from shardmill.model.notify import masked_notices, notify_faults
from shardmill.model.plain_json import plain_faults

_UNREADABLE = {"too-deep", "not-json"}


def check_definition(document: object, path_name: str | None = None) -> tuple[JobDefine | None, list[Fault]]:
    """Parse and validate a definition; returns it, or None and all faults.

    `path_name`: the name in the URL, which the document may repeat or omit.
    """
    if not isinstance(document, dict):
        return None, [fault((), "bad-type", "a definition must be an object")]
    faults = plain_faults(document)
    if any(each.code in _UNREADABLE for each in faults):
        return None, in_order(faults)
    steps = document.get("steps")
    if isinstance(steps, list) and len(steps) > MAX_STEPS:
        many = f"a job can have at most {MAX_STEPS} steps, not {len(steps)}; use sharding or several jobs"
        return None, in_order([*faults, fault(("steps",), "too-many-steps", many)])
    canonical_form = canonical(whole_numbers(document), path_name)
    define, model_faults = _define(canonical_form)
    faults += canonical_form.faults + model_faults + _rule_faults(canonical_form)
    return (None, in_order(faults)) if faults else (define, [])


def public_document(define: JobDefine) -> dict[str, Any]:
    """The definition in its canonical spelling for answers, with private values masked."""
    steps = [
        step.model_copy(update={"command": masked(step.command)}) if step.command else step
        for step in define.steps
    ]
    public = define.model_copy(update={"steps": steps, "notify": masked_notices(define.notify)})
    return _tidy(public.model_dump(exclude_unset=True, exclude_none=True))


def stored_document(define: JobDefine) -> dict[str, Any]:
    """The complete definition in its canonical spelling; `JobDefine.model_validate` reads it."""
    return _tidy(define.model_dump(exclude_unset=True, exclude_none=True, exclude_computed_fields=True))


def _define(canonical_form: Canonical) -> tuple[JobDefine | None, list[Fault]]:
    try:
        return JobDefine.model_validate(
            canonical_form.document, strict=True, by_alias=True, by_name=False
        ), []
    except ValidationError as error:
        return None, faults_of(error, JobDefine, canonical_form.origins, OTHER_SPELLINGS)


def _rule_faults(canonical_form: Canonical) -> list[Fault]:
    """Faults of rules between fields, for those parts of the document that can be read."""
    params = canonical_form.document.get("params")
    job_params = frozenset(params if isinstance(params, dict) else ())
    steps = canonical_form.document.get("steps")
    readable = [each if isinstance(each, dict) else {} for each in steps] if isinstance(steps, list) else []
    found = [
        (("steps", at, *path), code, message)
        for at, step in enumerate(readable)
        for path, code, message in step_faults(step, job_params, _upstream(readable, at))
    ]
    found += graph_faults(readable)
    found += notify_faults(canonical_form.document.get("notify"))
    return [fault(as_sent(path, canonical_form.origins), code, message) for path, code, message in found]


def _upstream(steps: list[dict[str, Any]], at: int) -> set[str]:
    """The upstream steps; computed only for steps that read outputs."""
    reads = any("steps." in text for _, text in templates(steps[at]))
    return upstream_of(steps, at) if reads else set()


def _tidy(document: dict[str, Any]) -> dict[str, Any]:
    """Remove empty lists and objects."""
    kept = {name: value for name, value in document.items() if value not in ([], {})}
    kept["steps"] = [
        {name: value for name, value in step.items() if value not in ([], {})} for step in document["steps"]
    ]
    return kept
