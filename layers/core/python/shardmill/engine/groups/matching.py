"""Match tasks with workers: which groups and which of their live workers can run a step's tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from shardmill.engine.mill import Mill
from shardmill.store.group_keys import EVERY_APP, EVERY_GROUP
from shardmill.store.rows import GroupRow, StepRow, WorkerRow

ANY = "*"
ANY_PROGRAM = "noop"  # every worker runs it
CLIENT_TYPES = frozenset(("command", "shell", "noop"))
"""The step types that clients of the AWE protocol can run."""
LAMBDA = "lambda"  # the worker id of the Lambda runner, which has no worker row
_MAX_LISTED = 100
_MAX_CLIENTS = 1_000


@dataclass(frozen=True, slots=True)
class WorkerSession:
    """The session of a worker that leases tasks.

    `reference` is `{worker id}.{session number}`, `apps` the programs that the worker runs, `skip` the tasks
    that it failed. A `client` of the AWE protocol never runs a task again that it failed (`strict`), runs
    only some steps, and has `space` bytes for the inputs of a task; None does not limit.
    """

    reference: str
    apps: Sequence[str] = (ANY,)
    skip: frozenset[str] = frozenset()
    strict: bool = False
    client: bool = False
    space: int | None = None

    @classmethod
    def of(cls, worker: WorkerRow) -> WorkerSession:
        return cls(worker.reference, tuple(worker.apps), frozenset(worker.skip))

    @classmethod
    def of_client(cls, worker: WorkerRow, space: int | None) -> WorkerSession:
        """The session of a client of the AWE protocol."""
        return replace(cls.of(worker), strict=True, client=True, space=space)

    @property
    def id(self) -> str:
        return self.reference.split(".")[0]


def group_rows(mill: Mill, names: Iterable[str], now: int) -> dict[str, GroupRow]:
    """The named groups that exist, from the cache. While all groups are suspended, each of them is
    suspended."""

    def read(missing: list[str]) -> dict[str, GroupRow]:
        every = {EVERY_GROUP: mill.groups.every_group()} if EVERY_GROUP in missing else {}
        names = [name for name in missing if name != EVERY_GROUP]
        return every | {name: row for name in names if (row := mill.groups.get(name))}

    rows = mill.recent_groups.get({*names, EVERY_GROUP}, read, now)
    every = rows.pop(EVERY_GROUP)
    if every.suspended:
        return {name: row.evolve(suspended=every.suspended) for name, row in rows.items()}
    return rows


def all_suspended(mill: Mill, now: int) -> bool:
    """Whether all groups are suspended together, from the cache."""
    rows = mill.recent_groups.get([EVERY_GROUP], lambda _: {EVERY_GROUP: mill.groups.every_group()}, now)
    return bool(rows[EVERY_GROUP].suspended)


def queue_suspended(mill: Mill, step: StepRow, queue: str, now: int) -> bool:
    """Whether the group that a queue belongs to is suspended."""
    rows = [row for row in group_rows(mill, step.groups, now).values() if queue in row.queues]
    return bool(rows) and all(row.suspended for row in rows)


def suspension_reasons(rows: Mapping[str, GroupRow]) -> str:
    """A sentence that names the suspended groups and why each is suspended."""
    return "; ".join(
        f"group {name} was {row.suspended}" for name, row in sorted(rows.items()) if row.suspended
    )


def required_program(step: StepRow) -> str:
    """The program that a worker needs for the tasks of a step: the command's name, or the step's type.

    If the name cannot be rendered, any worker qualifies: the tasks fail there with the template error.
    """
    kind = step.settings.type
    if kind != "command":
        return str(kind)
    from shardmill.engine.template_context import program_of  # few calls evaluate templates
    from shardmill.model.templates.render import TemplateError

    try:
        return program_of(step)
    except TemplateError:
        return ANY_PROGRAM


def can_run(apps: Iterable[str], need: str) -> bool:
    """Whether a worker with these apps can run a program. A path also matches by its base name."""
    known = set(apps)
    return need == ANY_PROGRAM or ANY in known or need in known or need.rsplit("/", 1)[-1] in known


def unfit_for_clients(step: StepRow) -> str:
    """Why clients of the AWE protocol cannot run the tasks of a step; empty if they can."""
    kind = step.settings.type
    if kind not in CLIENT_TYPES:
        return f"they run no steps of type {kind}"
    listed = [file for name in ("inputs", "outputs", "predata") for file in step.spec.get(name) or ()]
    names = [str(file.get(name) or "") for file in listed for name in ("name", "pattern")]
    pattern = next((name for name in names if "*" in name or "?" in name), "")
    return f"its files are named by a pattern, {pattern!r}" if pattern else ""


def live_workers(
    mill: Mill, groups: Iterable[str], now: int, *, need: str = ANY_PROGRAM, fresh: bool = False
) -> Iterator[WorkerRow]:
    """The workers of groups that run a program, take tasks and sent a heartbeat within the lease.

    They are read a page at a time as the caller iterates, so that finding one does not read all workers of a
    large group. `fresh`: not cached.
    """
    rows = group_rows(mill, groups, now)
    if fresh:
        mill.forget_workers(rows)
    seen: set[str] = set()
    for name, row in rows.items():
        for app in _apps_for(need):
            for worker in _members(mill, name, app, now):
                alive = worker.takes_tasks and worker.seen + 1000 * row.lease_seconds > now
                if alive and worker.id not in seen:
                    seen.add(worker.id)
                    yield worker


def _apps_for(need: str) -> list[str]:
    """The programs whose workers can run `need`, as `can_run` decides."""
    if need == ANY_PROGRAM:
        return [EVERY_APP]
    return list(dict.fromkeys((ANY, need, need.rsplit("/", 1)[-1])))


def _members(mill: Mill, group: str, app: str, now: int) -> Iterator[WorkerRow]:
    after = ""
    while True:
        key = (group, app, after)
        pages = mill.recent_workers.get(
            [key],
            lambda missing: {each: mill.workers.members(*each[:2], after=each[2]) for each in missing},
            now,
        )
        workers, after = pages[key]
        yield from workers
        if not after:
            return


def has_capable_worker(mill: Mill, group: GroupRow, need: str, now: int) -> bool:
    """Whether a group is not suspended and has a live worker that can run the program."""
    return not group.suspended and (
        group.kind == "lambda" or any(True for _ in live_workers(mill, [group.name], now, need=need))
    )


def capable_workers(mill: Mill, step: StepRow, now: int) -> list[WorkerRow]:
    """The live workers of a step's groups that can run its tasks, sorted by name; at most a few."""
    active = [name for name, row in group_rows(mill, step.groups, now).items() if not row.suspended]
    workers = islice(live_workers(mill, active, now, need=required_program(step)), _MAX_LISTED)
    return sorted(workers, key=lambda worker: worker.name)


def runs_in_lambda(mill: Mill, step: StepRow, now: int) -> bool:
    rows = group_rows(mill, step.groups, now).values()
    return any(row.kind == "lambda" and not row.suspended for row in rows)


def other_capable_groups(
    mill: Mill, step: StepRow, now: int, *, session: WorkerSession, task: str
) -> list[str]:
    """The groups of a step in which a worker other than `session` can run a task and has not failed it."""
    need = required_program(step)
    return [
        group.name
        for group in group_rows(mill, step.groups, now).values()
        if not group.suspended
        and (
            (group.kind == "lambda" and session.id != LAMBDA)
            or any(
                worker.id != session.id and task not in worker.skip
                for worker in live_workers(mill, [group.name], now, need=need)
            )
        )
    ]


def no_worker_reason(mill: Mill, step: StepRow, now: int) -> str:
    """A sentence that says why no live worker can run the tasks of a step; empty if one can."""
    rows = group_rows(mill, step.groups, now)
    if not rows:
        return f"step {step.name}: none of its worker groups exists: {', '.join(step.groups)}"
    active = [name for name in step.groups if name in rows and not rows[name].suspended]
    if not active:
        return f"step {step.name}: {suspension_reasons(rows)}"
    if any(rows[name].kind == "lambda" for name in active):
        return ""
    need = required_program(step)
    able = live_workers(mill, active, now, need=need)
    unfit = unfit_for_clients(step)
    first = list(islice(able, _MAX_CLIENTS if unfit else 1))
    if first and (not unfit or len(first) == _MAX_CLIENTS or any(not worker.profile for worker in first)):
        return ""
    named = f"group {active[0]}" if len(active) == 1 else f"groups {', '.join(active)}"
    others = f"; {suspension_reasons(rows)}" if len(active) < len(rows) else ""
    if first:
        return (
            f"step {step.name}: {named} has only AWE clients, which cannot run it, because {unfit}; start a "
            f"`shardmill worker` for {'it' if len(active) == 1 else 'one of them'}{others}"
        )
    if any(True for _ in live_workers(mill, active, now)):
        return f"step {step.name}: no live worker of {named} runs {need!r}{others}"
    unavailable = {
        f"{worker.name} ({_why_unavailable(worker)})"
        for name in active
        for worker in mill.workers.members(name)[0]
    }
    hint = f"; unavailable: {', '.join(sorted(unavailable)[:5])}" if unavailable else ""
    return f"step {step.name}: {named} has no live worker{hint}{others}"


def _why_unavailable(worker: WorkerRow) -> str:
    if worker.suspended or worker.tired:
        return f"{worker.notes or worker.tired}: `shardmill workers resume {worker.name}`"
    return "draining" if worker.drain or worker.offline else "no heartbeat"
