"""Definitions: saved in versions, read, deleted, judged."""

from __future__ import annotations

from shardmill.engine.errors import Busy, DefinitionInvalid, DefinitionNotFound, PreconditionFailed, TooLarge
from shardmill.engine.mill import Mill
from shardmill.model.actor import Actor
from shardmill.model.definition import JobDefine
from shardmill.model.fault import Fault
from shardmill.model.validate import check_definition, stored_document
from shardmill.store.definitions import (
    Definition,
    DefinitionTooLarge,
    Expected,
    OtherVersion,
    VersionConflict,
)

MAX_ANSWER_BYTES = 5_000_000  # a function answers 6 MB at most
_TRIES = 200  # each of them can be lost only to somebody else's save


def save(
    mill: Mill, job_name: str, document: object, actor: Actor, *, now: int, expected: Expected = None
) -> Definition:
    """Save the next version, after whichever is the newest then unless the caller expects one."""
    define, faults = check_definition(document, job_name)
    if not define:
        raise invalid(faults)
    stored = stored_document(define)
    if len(define.model_dump_json()) > MAX_ANSWER_BYTES:
        raise TooLarge(f"with all its fields the definition has more than {MAX_ANSWER_BYTES} bytes; split it")
    for _ in range(_TRIES):
        try:
            return mill.definitions.save(job_name, stored, user=actor.name, now=now, expected=expected)
        except VersionConflict:
            continue
        except OtherVersion as error:
            raise _not_as_expected(job_name, error.version) from error
        except DefinitionTooLarge as error:
            raise TooLarge(str(error.__doc__)) from error
    raise _busy(job_name)


def _not_as_expected(job_name: str, version: int) -> PreconditionFailed:
    there = f"is at version {version}" if version else "does not exist"
    return PreconditionFailed(f"definition {job_name!r} {there}: not what was expected; read it and repeat")


def _busy(job_name: str) -> Busy:
    return Busy(f"too many change the definition {job_name!r} at once; ask again")


def invalid(faults: list[Fault]) -> DefinitionInvalid:
    return DefinitionInvalid(
        f"the definition has {len(faults)} fault{'s' if len(faults) != 1 else ''}",
        faults=[fault.model_dump() for fault in faults],
    )


def read(mill: Mill, job_name: str, version: int | None = None) -> Definition:
    """A definition, in its newest version unless another is asked for."""
    saved = mill.definitions.find(job_name)
    if not saved:
        raise DefinitionNotFound(job_name)
    if version in (None, saved.version):
        return saved
    older = mill.definitions.version(job_name, version)
    if not older:
        raise DefinitionNotFound(job_name, version)
    return older


def delete(mill: Mill, job_name: str, *, expected: Expected = None) -> None:
    for _ in range(_TRIES):
        newest = read(mill, job_name).version
        if expected not in (None, "any", newest):
            raise _not_as_expected(job_name, newest)
        try:
            return mill.definitions.delete(job_name, version=newest)
        except VersionConflict:
            continue
    raise _busy(job_name)


def define_of(saved: Definition) -> JobDefine:
    return JobDefine.model_validate(saved.document)
