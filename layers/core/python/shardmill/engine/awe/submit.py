"""Submit an AWE document: save its definition, create its groups, and submit a Job of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from shardmill.engine import definitions
from shardmill.engine.access.errors import Forbidden
from shardmill.engine.access.limits import check_room
from shardmill.engine.awe.data_tokens import check_text
from shardmill.engine.awe.errors import DocumentInvalid
from shardmill.engine.errors import MillError, RequestInvalid
from shardmill.engine.groups import groups
from shardmill.engine.groups.matching import group_rows
from shardmill.engine.jobs.effective import tasks_known_before
from shardmill.engine.jobs.submit import BatchReads, submit
from shardmill.engine.mill import Mill
from shardmill.engine.nodes.callers import add_reader
from shardmill.engine.nodes.inputs import OwnNodes
from shardmill.model.access.grants import Work
from shardmill.model.access.limits import Limits
from shardmill.model.actor import Actor
from shardmill.model.awe.document import parse_document, translate
from shardmill.model.awe.faults import DocumentFault
from shardmill.model.awe.names import task_name
from shardmill.model.awe.translation import StoreOf
from shardmill.model.definition.validation import check_definition
from shardmill.model.groups.group import GroupRequest
from shardmill.store.rows import JobRow


def submit_document(
    mill: Mill, body: bytes, actor: Actor, *, base: str, data_token: str, job_id: str, now: int
) -> JobRow:
    """Create and start the Job of a document. `base` is the address of this server's `/awe`.

    A data token makes `info.auth` true, because clients ask for it only then.
    The commands are the submitter's own, so this needs the scope `define` beside `submit`.
    """
    check_text(data_token)
    try:
        nodes = OwnNodes(mill, actor, base, now)
        translation = translate(parse_document(body), StoreOf(base, mill.settings.bucket, nodes))
    except DocumentFault as fault:
        raise DocumentInvalid(fault.texts) from None
    name = translation.define["jobName"]
    if data_token:
        translation.define["info"]["auth"] = True
    _check_scopes(actor, name, translation.groups)
    _check_limits(mill, translation.define, actor)
    create_groups(mill, translation.groups, now)
    try:
        saved = definitions.save(mill, name, translation.define, actor, now=now)
    except MillError as error:
        raise _about_document(error, translation.define) from None
    request: dict[str, object] = {"jobName": name, "trigger": job_id}  # a document does not name its run
    if data_token:
        request["dataToken"] = data_token
        add_reader(mill, job_id, data_token, nodes.found, now)
    reads = BatchReads(definitions={name: saved})
    submitter = Actor(actor.name)  # its scopes are checked
    submitted = submit(mill, request, submitter, now=now, new_id=lambda: job_id, reads=reads)
    return submitted.job


def _check_scopes(actor: Actor, name: str, names: Iterable[str]) -> None:
    work = Work(name, "", frozenset(names))
    for scope in ("submit", "define"):
        if not actor.may(scope, work):
            raise Forbidden(
                f"a document contains commands, so it needs the scopes 'submit' and 'define'; the token has "
                f"no scope {scope!r} for the definition {name} and the groups {', '.join(sorted(names))}"
            )


def _check_limits(mill: Mill, document: Mapping[str, Any], actor: Actor) -> None:
    """Raise LimitReached before a definition is saved and groups are created for a Job that would be
    rejected.

    A limit that a concurrent request reaches meanwhile still rejects the Job; the definition then stays.
    """
    if not mill.usage.limits.any:
        return
    define, _ = check_definition(document)
    if define:  # otherwise its faults are reported when it is saved
        new = not mill.definitions.heads([define.job_name])
        wanted = Limits(definitions=int(new), jobs=1, tasks=tasks_known_before(define.steps))
        check_room(mill, define.app_name or "", wanted, actor)


def _about_document(error: MillError, define: Mapping[str, Any]) -> MillError:
    """The faults of the generated definition as faults of the document."""
    if not isinstance(error, RequestInvalid) and not error.faults:
        return error
    return DocumentInvalid([f"{_place(each['pointer'], define)}: {each['message']}" for each in error.faults])


def _place(pointer: str, define: Mapping[str, Any]) -> str:
    """The place in the document that corresponds to a place in the generated definition."""
    section, *rest = pointer.strip("/").split("/")
    if section != "steps" or not rest or not rest[0].isdecimal():
        return ".".join([section, *rest])
    step = define["steps"][int(rest[0])]
    task = step.get("taskid") or task_name(step["stepName"])
    names = ["cmd" if name == "command" else name for name in rest[1:]]
    return ".".join([f"task {task}", *names])


def create_groups(mill: Mill, names: Iterable[str], now: int) -> None:
    """Create the groups that do not exist: clients and documents name groups without creating them."""
    wanted = list(names)
    for name in set(wanted) - set(group_rows(mill, wanted, now)):
        groups.save(mill, name, GroupRequest(), now)
        mill.recent_groups.discard(name)
