"""Match tasks with workers: which groups and which of their live workers can run a step's tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from shardmill.engine.mill import Mill
from shardmill.engine.template_context import program_of
from shardmill.model.templates.render import TemplateError
from shardmill.store.keys import EVERY_GROUP
from shardmill.store.rows import GroupRow, StepRow, WorkerRow

ANY = "*"
LAMBDA = "lambda"  # the worker id of the Lambda runner, which has no worker row
_FIRST_BOUNCE_SECONDS, _LONGEST_BOUNCE_SECONDS = 1, 60


@dataclass(frozen=True, slots=True)
class WorkerSession:
    """The session of a worker that leases tasks.

    `reference` is `{worker id}.{session number}`, `apps` the programs that the worker runs, `skip` the tasks
    that it failed.
    """

    reference: str
    apps: Sequence[str] = (ANY,)
    skip: frozenset[str] = frozenset()

    @classmethod
    def of(cls, worker: WorkerRow) -> WorkerSession:
        return cls(worker.reference, tuple(worker.apps), frozenset(worker.skip))

    @property
    def id(self) -> str:
        return self.reference.split(".")[0]


def group_rows(mill: Mill, names: Iterable[str], now: int) -> dict[str, GroupRow]:
    """Those of the named groups that exist, from the cache. While all groups are suspended, each is."""

    def read(missing: list[str]) -> dict[str, GroupRow]:
        every = {EVERY_GROUP: mill.groups.every_group()} if EVERY_GROUP in missing else {}
        names = [name for name in missing if name != EVERY_GROUP]
        return every | {name: row for name in names if (row := mill.groups.get(name))}

    rows = mill.recent_groups.get({*names, EVERY_GROUP}, read, now)
    every = rows.pop(EVERY_GROUP)
    if every.suspended:
        return {name: row.evolve(suspended=every.suspended) for name, row in rows.items()}
    return rows


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
    try:
        return program_of(step) if kind == "command" else str(kind)
    except TemplateError:
        return "noop"


def can_run(apps: Iterable[str], need: str) -> bool:
    """Whether a worker with these apps can run a program. A path also matches by its base name."""
    known = set(apps)
    return need == "noop" or ANY in known or need in known or need.rsplit("/", 1)[-1] in known


def live_workers(mill: Mill, groups: Iterable[str], now: int, *, fresh: bool = False) -> list[WorkerRow]:
    """The workers of groups that take tasks and sent a heartbeat within the lease; `fresh`: not cached."""
    rows = group_rows(mill, groups, now)
    if fresh:
        for name in rows:
            mill.recent_workers.discard(name)
    members = mill.recent_workers.get(rows, _read(mill), now)
    alive = {
        worker.id: worker
        for name, workers in members.items()
        for worker in workers
        if worker.takes_tasks and worker.seen + 1000 * rows[name].lease_seconds > now
    }
    return list(alive.values())


def has_capable_worker(mill: Mill, group: GroupRow, need: str, now: int) -> bool:
    """Whether a group is not suspended and has a live worker that can run the program."""
    return not group.suspended and (
        group.kind == "lambda"
        or any(can_run(worker.apps, need) for worker in live_workers(mill, [group.name], now))
    )


def _read(mill: Mill) -> Callable[[list[str]], dict[str, list[WorkerRow]]]:
    return lambda names: {name: mill.workers.of_group(name) for name in names}


def bounce_delay(receives: int) -> int:
    """Seconds to hide a message that workers which cannot run its task received so many times."""
    return min(_LONGEST_BOUNCE_SECONDS, _FIRST_BOUNCE_SECONDS << min(receives - 1, 10) if receives else 1)


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
                worker.id != session.id and task not in worker.skip and can_run(worker.apps, need)
                for worker in live_workers(mill, [group.name], now)
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
    need, workers = required_program(step), live_workers(mill, active, now)
    if any(can_run(worker.apps, need) for worker in workers):
        return ""
    named = f"group {active[0]}" if len(active) == 1 else f"groups {', '.join(active)}"
    others = f"; {suspension_reasons(rows)}" if len(active) < len(rows) else ""
    if workers:
        return f"step {step.name}: no live worker of {named} runs {need!r}{others}"
    unavailable = {
        f"{worker.name} ({_why_unavailable(worker)})"
        for members in mill.recent_workers.get(active, _read(mill), now).values()
        for worker in members
    }
    hint = f"; unavailable: {', '.join(sorted(unavailable)[:5])}" if unavailable else ""
    return f"step {step.name}: {named} has no live worker{hint}{others}"


def _why_unavailable(worker: WorkerRow) -> str:
    if worker.suspended or worker.tired:
        return f"{worker.notes or worker.tired}: `shardmill workers resume {worker.name}`"
    return "draining" if worker.drain or worker.offline else "no heartbeat"
