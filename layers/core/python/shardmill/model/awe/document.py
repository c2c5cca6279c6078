"""Translate an AWE document to a definition of the engine: its tasks become steps, its files become files."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

from shardmill.model.awe import placeholders
from shardmill.model.awe.faults import DocumentFault, Faults
from shardmill.model.awe.files import AweFile
from shardmill.model.awe.names import ANY_GROUP, plain_name
from shardmill.model.awe.tasks import AweTask, Rewired, check_graph, check_origins, read_tasks, skip_tasks
from shardmill.model.awe.translation import StoreOf, step_of

MAX_DOCUMENT_BYTES = 1_000_000
RETRIES = 2
"""Three attempts in all; with `info.noretry`, the engine makes one."""

_CWL = "CWL documents are not supported; submit an AWE document with info and tasks"
_INFO_TEXTS = ("name", "project", "user", "pipeline")


@dataclass(frozen=True, slots=True)
class Translation:
    """A definition, and the other values that the submission of its job needs."""

    define: dict[str, Any]
    groups: list[str]
    priority: int
    inputs: list[AweFile] = field(default_factory=list)
    """The files that exist before the job."""


def parse_document(body: bytes) -> dict[str, Any]:
    """Parse the text of a document. Raises DocumentFault if it is too large, not JSON, or a template."""
    if len(body) > MAX_DOCUMENT_BYTES:
        raise DocumentFault(
            f"the document has {len(body)} bytes; the limit is {MAX_DOCUMENT_BYTES}: split the job, or pass "
            "long lists in input files"
        )
    text = body.decode("utf-8-sig", errors="replace")
    try:
        document = json.loads(text, object_pairs_hook=_object)
    except RecursionError:
        raise DocumentFault("the document is nested too deeply") from None
    except ValueError as error:
        left = placeholders.unfilled_in_text(text)
        if left:
            raise _unfilled(left) from None
        if "cwlVersion" in text:
            raise DocumentFault(_CWL) from None
        raise DocumentFault(f"the document is not valid JSON: {error}") from None
    if not isinstance(document, dict):
        raise DocumentFault("the document must be an object with info and tasks")
    if left := placeholders.unfilled(document):
        raise _unfilled(left)
    return document


def _object(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object; a duplicate name is a fault, because one of the values would be lost."""
    found = dict(fields)
    if len(found) < len(fields):
        twice = next(name for name, number in Counter(name for name, _ in fields).items() if number > 1)
        raise DocumentFault(f"an object of the document has the name {twice[:64]!r} twice")
    return found


def _unfilled(names: list[str]) -> DocumentFault:
    listed = ", ".join(f"#{name}" for name in names[:20])
    return DocumentFault(f"the document has placeholders that were not filled in: {listed}")


def translate(document: dict[str, Any], store: StoreOf) -> Translation:
    """Translate a parsed document. Raises DocumentFault with all its faults."""
    faults = Faults()
    if "cwlVersion" in document or "$graph" in document:
        raise DocumentFault(_CWL)
    info = faults.object(document.get("info"), "info")
    tasks = read_tasks(document.get("tasks"), faults)
    check_graph(tasks, faults)
    faults.raise_if_any()
    check_origins(tasks, faults)
    faults.raise_if_any()
    rewired = skip_tasks(tasks)
    steps = [step_of(task, tasks, rewired, store, faults) for task in tasks.values()]
    groups = _groups(info, faults)
    priority = faults.number(info.get("priority"), "info.priority", default=1)
    described = _info(info, faults)
    faults.raise_if_any()
    define = {
        "jobName": _job_name(described),
        "workerGroups": groups,
        "priority": priority,
        "failedRetries": RETRIES,
        "failedInterval": 0,
        "lostRetries": 1_000,
        "onFailure": "suspend",
        "info": described,
        "steps": steps,
    }
    return Translation(define, groups, priority, _existing(tasks, rewired))


def _job_name(info: dict[str, Any]) -> str:
    return plain_name(f"awe-{info.get('pipeline') or info.get('name') or 'job'}")


def _group_names(info: dict[str, Any], faults: Faults) -> list[str]:
    """The groups as the document names them."""
    given = info.get("clientgroups")
    if isinstance(given, list):
        given = ",".join(faults.text(each, "info.clientgroups") for each in given)
    names = faults.text(given, "info.clientgroups").split(",")
    return list(dict.fromkeys(name.strip() for name in names if name.strip()))


def _groups(info: dict[str, Any], faults: Faults) -> list[str]:
    groups = list(dict.fromkeys(map(plain_name, _group_names(info, faults))))
    if len(groups) > 100:
        faults.add("info.clientgroups", "has more than 100 groups")
    return groups or [ANY_GROUP]


def _info(info: dict[str, Any], faults: Faults) -> dict[str, Any]:
    described: dict[str, Any] = {
        name: faults.text(info.get(name), f"info.{name}")
        for name in _INFO_TEXTS
        if info.get(name) not in (None, "")
    }
    if info.get("clientgroups"):
        described["clientgroups"] = ",".join(_group_names(info, faults)) or ANY_GROUP
    described["auth"] = faults.flag(info.get("auth"), "info.auth")
    described["noretry"] = faults.flag(info.get("noretry"), "info.noretry")
    described["userattr"] = faults.attributes(info.get("userattr"), "info.userattr")
    return described


def _existing(tasks: dict[str, AweTask], rewired: Rewired) -> list[AweFile]:
    found = [file for task in tasks.values() for file in (*task.inputs.values(), *task.predata.values())]
    return [replace(file) for file in [*found, *rewired.values()] if not file.origin]
