"""Save, read, suspend, resume and delete definitions, and list their dependency graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from shardmill.aws.secrets import SecretUnavailable
from shardmill.engine.access.errors import Forbidden
from shardmill.engine.access.limits import limits_reported
from shardmill.engine.access.visible import Visible, bound_groups_of, work_of_definition
from shardmill.engine.conflict import Attempts
from shardmill.engine.errors import (
    DefinitionInUse,
    DefinitionInvalid,
    DefinitionNotFound,
    PreconditionFailed,
    TooLarge,
)
from shardmill.engine.mill import Mill
from shardmill.engine.private_values import open_definition, seal_definition
from shardmill.model.access.grants import Work
from shardmill.model.actor import Actor, suspended_by
from shardmill.model.definition.answers import JobEdge, JobGraph, JobNode
from shardmill.model.definition.fields import JobDefine
from shardmill.model.definition.masked_values import has_masks, keep_masked_values
from shardmill.model.definition.private_values import secret_faults
from shardmill.model.definition.validation import check_definition, stored_document
from shardmill.model.fault import Fault, fault
from shardmill.store.definitions import (
    Definition,
    DefinitionTooLarge,
    Expected,
    VersionConflict,
    VersionMismatch,
    named_groups,
)

MAX_RESPONSE_BYTES = 5_000_000  # a Lambda response is limited to 6 MB
GRAPH_LIMIT = 1_000
Check = Callable[[JobDefine], list[Fault]]

_TRIES = 200  # an attempt fails only because another save succeeds


def save(
    mill: Mill,
    job_name: str,
    document: object,
    actor: Actor,
    *,
    now: int,
    expected: Expected = None,
    check: Check | None = None,
) -> Definition:
    """Save the next version. With `expected`, only if that is the current version.

    `check`: finds more faults of a definition that is valid by itself.
    """
    complete = _with_kept_values(mill, job_name, document, Visible(mill, actor, "define"))
    define, faults = check_definition(complete, job_name)
    if not define:
        raise invalid(faults)
    stored = stored_document(define)
    _check_scope(mill, define, stored, actor)
    if found := secret_faults(stored) or (check(define) if check else []):
        raise invalid(found)
    if len(define.model_dump_json()) > MAX_RESPONSE_BYTES:
        raise TooLarge(
            f"the definition with its defaults is larger than {MAX_RESPONSE_BYTES} bytes; split it"
        )
    stored = seal_definition(mill, job_name, stored)
    attempts = Attempts(f"the definition {job_name!r}", _TRIES)
    while True:
        attempts.begin()
        graph = _check_cycles(mill, define, actor)
        replaced = _check_newest(mill, job_name, actor, expected)
        try:
            with limits_reported(mill, actor):
                return mill.definitions.save(
                    job_name, stored, user=actor.name, now=now, expected=replaced, graph=graph
                )
        except VersionConflict:
            continue
        except VersionMismatch as error:
            if replaced == expected:
                raise _version_mismatch(job_name, error.version) from error
        except DefinitionTooLarge as error:
            raise TooLarge(str(error.__doc__)) from error


def _check_scope(mill: Mill, define: JobDefine, stored: dict[str, Any], actor: Actor) -> None:
    """Raise Forbidden if an actor may not define this, or faults for dependencies that it may not see."""
    if not actor.limited("define"):
        return
    groups = {*named_groups(stored), *bound_groups_of(mill, define)}
    if not actor.may("define", Work(define.job_name, define.app_name or "", groups)):
        raise Forbidden(
            "the token has no scope 'define' for a definition of this name, application and worker groups"
        )
    parents = {each.job_name for each in define.dependencies} - {define.job_name}
    seen = Visible(mill, actor, "define").definitions(parents) | Visible(mill, actor).definitions(parents)
    faults = [
        fault(("dependencies", at, "jobName"), "unknown-definition", "the token may read no such definition")
        for at, each in enumerate(define.dependencies)
        if each.job_name in parents - seen
    ]
    if faults:
        raise invalid(faults)


def _check_newest(mill: Mill, job_name: str, actor: Actor, expected: Expected) -> Expected:
    """Raise Forbidden if an actor may not define the version that it would replace; return that version."""
    if not actor.limited("define"):
        return expected
    newest = mill.definitions.heads([job_name]).get(job_name)
    if newest and not actor.may("define", work_of_definition(newest)):
        raise Forbidden(f"the token has no scope 'define' for the definition {job_name!r} that exists")
    version = newest.version if newest else 0
    if expected not in (None, version) and not (expected == "any" and newest):
        raise _version_mismatch(job_name, version)
    return version


def validate(mill: Mill, document: object, visible: Visible) -> tuple[JobDefine | None, list[Fault]]:
    """Check a document as `save` does, without saving it."""
    job_name = document.get("jobName") if isinstance(document, dict) else None
    if isinstance(job_name, str) and visible.definition(job_name):
        document = _with_kept_values(mill, job_name, document, visible)
    define, faults = check_definition(document)
    if define and (found := secret_faults(stored_document(define))):
        return None, found
    return define, faults


def _with_kept_values(mill: Mill, job_name: str, document: object, visible: Visible) -> object:
    """Replace the masks of private values by the values of the version that the document was read from.

    `visible`: the definitions that the caller may define; the version may belong to another owner's deleted
    definition.
    """
    if not isinstance(document, dict) or not has_masks(document):
        return document
    version = document.get("version")
    try:
        saved = read(mill, job_name, version if type(version) is int else None, visible)
        values = open_definition(mill, job_name, saved.document)
    except (DefinitionNotFound, SecretUnavailable):
        return document
    return keep_masked_values(document, values)


def _check_cycles(mill: Mill, define: JobDefine, actor: Actor) -> int | None:
    """Check the dependencies for cycles; return the revision of the graph that was checked, if any."""
    if not define.dependencies:
        return None
    graph = mill.definitions.graph_revision()
    faults = []
    for at, dependency in enumerate(define.dependencies):
        past = dependency.window is not None and dependency.window.to < 0
        if dependency.job_name == define.job_name and past:
            continue  # a job may depend on its own earlier runs
        cycle = _cycle(mill, define.job_name, dependency.job_name)
        if cycle:
            seen = Visible(mill, actor).definitions(cycle) | {define.job_name, dependency.job_name}
            path = " -> ".join(name if name in seen else "..." for name in cycle)
            message = f"the dependencies form a cycle: {path}"
            faults.append(fault(("dependencies", at, "jobName"), "cyclic-jobs", message))
    if faults:
        raise invalid(faults)
    return graph


def _cycle(mill: Mill, job_name: str, parent: str) -> list[str]:
    """Return the path from the job through its parent back to itself; empty if there is none."""
    paths = {parent: [job_name, parent]}
    frontier = [parent]
    while frontier and job_name not in paths:
        found = mill.definitions.parents(frontier)
        frontier = []
        for name, parents in found.items():
            for each in parents:
                if each not in paths and each != name:
                    paths[each] = [*paths[name], each]
                    frontier.append(each)
    return paths.get(job_name, [])


def _version_mismatch(job_name: str, version: int) -> PreconditionFailed:
    actual = f"is at version {version}" if version else "does not exist"
    return PreconditionFailed(
        f"definition {job_name!r} {actual}, which does not match the precondition; read it again and retry"
    )


def invalid(faults: list[Fault]) -> DefinitionInvalid:
    return DefinitionInvalid(
        f"the definition has {len(faults)} fault{'s' if len(faults) != 1 else ''}",
        faults=[each.model_dump() for each in faults],
    )


def read(mill: Mill, job_name: str, version: int | None = None, visible: Visible | None = None) -> Definition:
    """Return a definition: the given version, or the newest.

    `visible` hides versions: an older one can be of another application or of other worker groups.
    """
    saved = mill.definitions.find(job_name)
    if not saved:
        raise DefinitionNotFound(job_name)
    if version in (None, saved.version):
        return saved
    older = mill.definitions.version(job_name, version)
    if not older or (visible and not visible.work(_work_of(older))):
        raise DefinitionNotFound(job_name, version)
    return replace(older, suspended=saved.suspended)


def _work_of(saved: Definition) -> Work:
    return Work(saved.job_name, saved.document.get("appName", ""), named_groups(saved.document))


def delete(mill: Mill, job_name: str, visible: Visible, *, expected: Expected = None) -> None:
    """Delete a definition. Raises DefinitionInUse if another depends on it or a schedule starts it."""
    attempts = Attempts(f"the definition {job_name!r}", _TRIES)
    while True:
        attempts.begin()
        newest = read(mill, job_name)
        if expected not in (None, "any", newest.version):
            raise _version_mismatch(job_name, newest.version)
        use = mill.definitions.usage(job_name)
        _check_unused(mill, job_name, visible)
        parents = {each["jobName"] for each in newest.document.get("dependencies", ())}
        try:
            return mill.definitions.delete(job_name, version=newest.version, parents=sorted(parents), use=use)
        except VersionConflict:
            continue


def suspend(mill: Mill, job_name: str, actor: Actor, reason: str, now: int) -> Definition:
    """Reject new Jobs of a definition. Its schedules apply their `catchUp` when it is resumed."""
    return _set_suspended(mill, job_name, suspended_by(actor, reason), now)


def resume(mill: Mill, job_name: str, now: int) -> Definition:
    """Accept new Jobs of a definition again. The tick starts the Jobs that its parents requested
    meanwhile."""
    return _set_suspended(mill, job_name, None, now)


def _set_suspended(mill: Mill, job_name: str, reason: str | None, now: int) -> Definition:
    saved = mill.definitions.suspend(job_name, reason, now=now)
    if not saved:
        raise DefinitionNotFound(job_name)
    return saved


def _check_unused(mill: Mill, job_name: str, visible: Visible) -> None:
    """Raise DefinitionInUse; it names only definitions that the caller may see."""
    children = [name for name in mill.definitions.children(job_name) if name != job_name]
    if children:
        seen = sorted(visible.definitions(children))
        others = ["definitions that the token may not read"] if len(seen) < len(children) else []
        raise DefinitionInUse(
            f"definition {job_name!r} is a dependency of {', '.join([*seen, *others])}; "
            "remove the dependency first"
        )
    schedules = [row.id for row in mill.schedules.of_job(job_name)]
    if schedules:
        raise DefinitionInUse(
            f"definition {job_name!r} has the schedules {', '.join(schedules)}; delete them first"
        )


def graph(mill: Mill, visible: Visible) -> JobGraph:
    """Return the definitions that the caller may see, their schedules, and the dependencies between them.

    The parents that a visible definition names are part of its document, so they are listed too.
    """
    rows = mill.definitions.page(after=None, limit=GRAPH_LIMIT)
    listed = {row.job_name: row for row in rows if visible.listed(row)}
    edges = [JobEdge(parent=parent, child=row.job_name) for row in listed.values() for parent in row.parents]
    schedules: dict[str, list[str]] = {}
    for row in mill.schedules.page(after=None, limit=GRAPH_LIMIT):
        if visible.all or row.job_name in listed:
            schedules.setdefault(row.job_name, []).append(row.id)
    names = {*listed, *(edge.parent for edge in edges)}
    return JobGraph(
        nodes=[
            JobNode(job_name=name, defined=name in listed, schedules=schedules.get(name, []))
            for name in sorted(names)
        ],
        edges=edges,
    )


def define_of(saved: Definition) -> JobDefine:
    return JobDefine.model_validate(saved.document)
