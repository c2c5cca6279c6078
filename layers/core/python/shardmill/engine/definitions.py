"""Definitions: saved in versions, read, deleted, judged."""

from __future__ import annotations

from dataclasses import replace

from shardmill.engine.conflict import Attempts
from shardmill.engine.errors import (
    DefinitionInUse,
    DefinitionInvalid,
    DefinitionNotFound,
    PreconditionFailed,
    TooLarge,
)
from shardmill.engine.mill import Mill
from shardmill.model.actor import Actor, suspended_by
from shardmill.model.definition.fields import JobDefine, JobEdge, JobGraph, JobNode
from shardmill.model.definition.validation import check_definition, stored_document
from shardmill.model.fault import Fault, fault
from shardmill.store.definitions import (
    Definition,
    DefinitionTooLarge,
    Expected,
    VersionConflict,
    VersionMismatch,
)

MAX_ANSWER_BYTES = 5_000_000  # a function answers 6 MB at most
LISTED_AT_ONCE = 1_000
_TRIES = 200  # an attempt fails only because another save succeeds


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
    attempts = Attempts(f"the definition {job_name!r}", _TRIES)
    while True:
        attempts.begin()
        graph = _judge_graph(mill, define)
        try:
            return mill.definitions.save(
                job_name, stored, user=actor.name, now=now, expected=expected, graph=graph
            )
        except VersionConflict:
            continue
        except VersionMismatch as error:
            raise _not_as_expected(job_name, error.version) from error
        except DefinitionTooLarge as error:
            raise TooLarge(str(error.__doc__)) from error


def _judge_graph(mill: Mill, define: JobDefine) -> int | None:
    """The revision of the graph of jobs in which the dependencies make no cycle; None if there are none."""
    if not define.dependencies:
        return None
    graph = mill.definitions.graph_revision()
    faults = []
    for at, dependency in enumerate(define.dependencies):
        past = dependency.window is not None and dependency.window.to < 0
        if dependency.job_name == define.job_name and past:
            continue  # waits for earlier runs of itself
        cycle = _cycle(mill, define.job_name, dependency.job_name)
        if cycle:
            message = f"jobs wait for each other: {' -> '.join(cycle)}"
            faults.append(fault(("dependencies", at, "jobName"), "cyclic-jobs", message))
    if faults:
        raise invalid(faults)
    return graph


def _cycle(mill: Mill, job_name: str, parent: str) -> list[str]:
    """The way from a parent back to the job, through what each depends on; nothing if there is none."""
    ways = {parent: [job_name, parent]}
    new = [parent]
    while new and job_name not in ways:
        found = mill.definitions.parents(new)
        new = []
        for name, parents in found.items():
            for each in parents:
                if each not in ways and each != name:
                    ways[each] = [*ways[name], each]
                    new.append(each)
    return ways.get(job_name, [])


def _not_as_expected(job_name: str, version: int) -> PreconditionFailed:
    there = f"is at version {version}" if version else "does not exist"
    return PreconditionFailed(f"definition {job_name!r} {there}: not what was expected; read it and repeat")


def invalid(faults: list[Fault]) -> DefinitionInvalid:
    return DefinitionInvalid(
        f"the definition has {len(faults)} fault{'s' if len(faults) != 1 else ''}",
        faults=[each.model_dump() for each in faults],
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
    return replace(older, suspended=saved.suspended)


def delete(mill: Mill, job_name: str, *, expected: Expected = None) -> None:
    """Delete a definition that no other depends on and no schedule starts."""
    attempts = Attempts(f"the definition {job_name!r}", _TRIES)
    while True:
        attempts.begin()
        newest = read(mill, job_name)
        if expected not in (None, "any", newest.version):
            raise _not_as_expected(job_name, newest.version)
        use = mill.definitions.usage(job_name)
        _check_unused(mill, job_name)
        parents = {each["jobName"] for each in newest.document.get("dependencies", ())}
        try:
            return mill.definitions.delete(job_name, version=newest.version, parents=sorted(parents), use=use)
        except VersionConflict:
            continue


def suspend(mill: Mill, job_name: str, actor: Actor, reason: str) -> Definition:
    """Have no new Jobs of a definition start; its schedules follow their catchUp when it is resumed."""
    return _hold(mill, job_name, suspended_by(actor, reason))


def resume(mill: Mill, job_name: str) -> Definition:
    """Let Jobs of a definition start again; what its parents owe it is made good by the tick."""
    return _hold(mill, job_name, None)


def _hold(mill: Mill, job_name: str, why: str | None) -> Definition:
    held = mill.definitions.suspend(job_name, why)
    if not held:
        raise DefinitionNotFound(job_name)
    return held


def _check_unused(mill: Mill, job_name: str) -> None:
    children = [name for name in mill.definitions.children(job_name) if name != job_name]
    if children:
        raise DefinitionInUse(f"definition {job_name!r} is depended on by {', '.join(sorted(children))}")
    schedules = [row.id for row in mill.schedules.of_job(job_name)]
    if schedules:
        raise DefinitionInUse(
            f"definition {job_name!r} is started by the schedules {', '.join(schedules)}; delete them first"
        )


def graph(mill: Mill) -> JobGraph:
    """All definitions, what starts them, and which waits for which."""
    listed = {row.job_name: row for row in mill.definitions.page(after=None, limit=LISTED_AT_ONCE)}
    edges = [JobEdge(parent=parent, child=row.job_name) for row in listed.values() for parent in row.parents]
    started: dict[str, list[str]] = {}
    for row in mill.schedules.page(after=None, limit=LISTED_AT_ONCE):
        started.setdefault(row.job_name, []).append(row.id)
    names = {*listed, *(edge.parent for edge in edges)}
    return JobGraph(
        nodes=[
            JobNode(job_name=name, defined=name in listed, schedules=started.get(name, []))
            for name in sorted(names)
        ],
        edges=edges,
    )


def define_of(saved: Definition) -> JobDefine:
    return JobDefine.model_validate(saved.document)
