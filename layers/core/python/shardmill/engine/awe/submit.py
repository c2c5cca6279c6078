"""Submit an AWE document: save its definition, create its groups, and submit a Job of it."""

from __future__ import annotations

from collections.abc import Iterable

from shardmill.engine import definitions
from shardmill.engine.access.errors import Forbidden
from shardmill.engine.awe.errors import DocumentInvalid
from shardmill.engine.errors import MillError, RequestInvalid
from shardmill.engine.groups import groups
from shardmill.engine.groups.matching import group_rows
from shardmill.engine.jobs.submit import BatchReads, submit
from shardmill.engine.mill import Mill
from shardmill.engine.nodes.inputs import OwnNodes
from shardmill.model.access.grants import Work
from shardmill.model.actor import Actor
from shardmill.model.awe.document import Translation, parse_document, translate
from shardmill.model.awe.faults import DocumentFault
from shardmill.model.awe.translation import StoreOf
from shardmill.model.groups.group import GroupRequest
from shardmill.store.rows import JobRow


def submit_document(
    mill: Mill, body: bytes, actor: Actor, *, base: str, data_token: str, job_id: str, now: int
) -> JobRow:
    """Create and start the Job of a document. `base` is the address of this server's `/awe`.

    The commands are the submitter's own, so this needs the scope `define` beside `submit`.
    """
    try:
        store = StoreOf(base, mill.settings.bucket, OwnNodes(mill, actor, base, now))
        translation = translate(parse_document(body), store)
    except DocumentFault as fault:
        raise DocumentInvalid(fault.texts) from None
    name = translation.define["jobName"]
    _check_scopes(actor, name, translation.groups)
    create_groups(mill, translation.groups, now)
    try:
        saved = definitions.save(mill, name, translation.define, actor, now=now)
    except MillError as error:
        raise _about_document(error) from None
    request = _request(translation, name, job_id, data_token)
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


def _request(translation: Translation, name: str, job_id: str, data_token: str) -> dict[str, object]:
    """The trigger is the id of the Job: a document does not name its run."""
    request: dict[str, object] = {"jobName": name, "trigger": job_id}
    if data_token and translation.auth:
        request["dataToken"] = data_token
    return request


def _about_document(error: MillError) -> MillError:
    """The faults of the generated definition as faults of the document."""
    if not isinstance(error, RequestInvalid) and not error.faults:
        return error
    return DocumentInvalid([f"{fault['pointer']} {fault['message']}".strip() for fault in error.faults])


def create_groups(mill: Mill, names: Iterable[str], now: int) -> None:
    """Create the groups that do not exist: clients and documents name groups without creating them."""
    wanted = list(names)
    for name in set(wanted) - set(group_rows(mill, wanted, now)):
        groups.save(mill, name, GroupRequest(), now)
        mill.recent_groups.discard(name)
