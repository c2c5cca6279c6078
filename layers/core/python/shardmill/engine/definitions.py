"""Definitions: saved in versions, read, deleted, judged."""

from __future__ import annotations

from shardmill.engine.errors import DefinitionInvalid, DefinitionNotFound, PreconditionFailed, TooLarge
from shardmill.engine.mill import Mill
from shardmill.model.actor import Actor
from shardmill.model.definition import JobDefine
from shardmill.model.fault import Fault
from shardmill.model.validate import check_definition, stored_document
from shardmill.store.definitions import Definition, DefinitionTooLarge, VersionConflict

_TRIES = 8


def save(
    mill: Mill, job_name: str, document: object, actor: Actor, *, now: int, expected: int | None = None
) -> Definition:
    """Save the next version. `expected`: the version the caller has seen, 0 if there must be none."""
    define, faults = check_definition(document, job_name)
    if not define:
        raise invalid(faults)
    for tries_left in reversed(range(_TRIES if expected is None else 1)):
        try:
            return mill.definitions.save(
                job_name, stored_document(define), user=actor.name, now=now, expected=expected
            )
        except VersionConflict as error:
            if not tries_left:
                raise PreconditionFailed(f"definition {job_name!r}: {error.__doc__}") from error
        except DefinitionTooLarge as error:
            raise TooLarge(str(error.__doc__)) from error
    raise AssertionError("unreachable")


def invalid(faults: list[Fault]) -> DefinitionInvalid:
    return DefinitionInvalid(
        f"the definition has {len(faults)} fault{'s' if len(faults) != 1 else ''}",
        faults=[fault.model_dump() for fault in faults],
    )


def read(mill: Mill, job_name: str) -> Definition:
    saved = mill.definitions.find(job_name)
    if not saved:
        raise DefinitionNotFound(job_name)
    return saved


def delete(mill: Mill, job_name: str, *, expected: int | None = None) -> None:
    saved = read(mill, job_name)
    if expected is not None and expected != saved.version:
        raise PreconditionFailed(f"definition {job_name!r} is at version {saved.version}, not {expected}")
    try:
        mill.definitions.delete(job_name, expected=saved.version)
    except VersionConflict as error:
        raise PreconditionFailed(f"definition {job_name!r}: {error.__doc__}") from error


def define_of(saved: Definition) -> JobDefine:
    return JobDefine.model_validate(saved.document)
