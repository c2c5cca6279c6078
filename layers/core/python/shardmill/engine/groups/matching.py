"""Who can run what: groups and their live workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from shardmill.engine.mill import Mill
from shardmill.engine.template_context import program_of
from shardmill.model.templates.render import TemplateError
from shardmill.store.keys import EVERY_GROUP
from shardmill.store.rows import GroupRow, StepRow, WorkerRow

ANY = "*"
LAMBDA = "lambda"  # the id of the Lambda runner, which has no row
_FIRST_BOUNCE_SECONDS, _LONGEST_BOUNCE_SECONDS = 1, 60


@dataclass(frozen=True, slots=True)
class Taker:
    """Who takes tasks: a worker's session (`{id}.{session}`), what it runs, and what it should not."""

    reference: str
    apps: Sequence[str] = (ANY,)
    skip: frozenset[str] = frozenset()

    @classmethod
    def of(cls, worker: WorkerRow) -> Taker:
        return cls(worker.reference, tuple(worker.apps), frozenset(worker.skip))

    @property
    def id(self) -> str:
        return self.reference.split(".")[0]


def group_rows(mill: Mill, names: Iterable[str], now: int) -> dict[str, GroupRow]:
    """The groups that exist, as they were a moment ago; all are suspended while everything is."""

    def read(missing: list[str]) -> dict[str, GroupRow]:
        every = {EVERY_GROUP: mill.groups.every_group()} if EVERY_GROUP in missing else {}
        names = [name for name in missing if name != EVERY_GROUP]
        return every | {name: row for name in names if (row := mill.groups.get(name))}

    rows = mill.recent_groups.get({*names, EVERY_GROUP}, read, now)
    every = rows.pop(EVERY_GROUP)
    if every.suspended:
        return {name: row.evolve(suspended=every.suspended) for name, row in rows.items()}
    return rows


def halted(mill: Mill, step: StepRow, queue: str, now: int) -> bool:
    """Whether the tasks of a step must stay in a queue, because its group is suspended."""
    rows = [row for row in group_rows(mill, step.groups, now).values() if queue in row.queues]
    return bool(rows) and all(row.suspended for row in rows)


def why_halted(rows: Mapping[str, GroupRow]) -> str:
    """Which of these groups are suspended, and why."""
    return "; ".join(
        f"group {name} was {row.suspended}" for name, row in sorted(rows.items()) if row.suspended
    )


def need_of(step: StepRow) -> str:
    """The program that the tasks of a step need: their command, or the type that stands for it.

    One whose name cannot be told needs none: whoever takes its tasks is given the reason, and reports that.
    """
    kind = step.settings.type
    try:
        return program_of(step) if kind == "command" else str(kind)
    except TemplateError:
        return "noop"


def runs(apps: Iterable[str], need: str) -> bool:
    """Whether a worker with these apps runs that program; noop needs none, a path is known by its end."""
    known = set(apps)
    return need == "noop" or ANY in known or need in known or need.rsplit("/", 1)[-1] in known


def live_crew(mill: Mill, groups: Iterable[str], now: int, *, fresh: bool = False) -> list[WorkerRow]:
    """The workers of groups that take tasks and were seen within their lease."""
    rows = group_rows(mill, groups, now)
    if fresh:
        for name in rows:
            mill.recent_workers.discard(name)
    crews = mill.recent_workers.get(rows, _read(mill), now)
    alive = {
        worker.id: worker
        for name, crew in crews.items()
        for worker in crew
        if worker.takes_tasks and worker.seen + 1000 * rows[name].lease_seconds > now
    }
    return list(alive.values())


def served(mill: Mill, group: GroupRow, need: str, now: int) -> bool:
    """Whether anybody of a group runs such tasks now."""
    return not group.suspended and (
        group.kind == "lambda"
        or any(runs(worker.apps, need) for worker in live_crew(mill, [group.name], now))
    )


def _read(mill: Mill) -> Callable[[list[str]], dict[str, list[WorkerRow]]]:
    return lambda names: {name: mill.workers.of_group(name) for name in names}


def bounce_seconds(receives: int) -> int:
    """How long a message is hidden that was received so often, by workers that could not use it."""
    return min(_LONGEST_BOUNCE_SECONDS, _FIRST_BOUNCE_SECONDS << min(receives - 1, 10) if receives else 1)


def groups_for(mill: Mill, step: StepRow, now: int, *, taker: Taker, task: str) -> list[str]:
    """The groups of a step in which somebody else can run a task, and has not failed at it."""
    need = need_of(step)
    return [
        group.name
        for group in group_rows(mill, step.groups, now).values()
        if not group.suspended
        and (
            (group.kind == "lambda" and taker.id != LAMBDA)
            or any(
                worker.id != taker.id and task not in worker.skip and runs(worker.apps, need)
                for worker in live_crew(mill, [group.name], now)
            )
        )
    ]


def missing(mill: Mill, step: StepRow, now: int) -> str:
    """Why no live worker can run the tasks of an open step, in a sentence; nothing if one can."""
    rows = group_rows(mill, step.groups, now)
    if not rows:
        return f"step {step.name}: none of its worker groups exists any more: {', '.join(step.groups)}"
    working = [name for name in step.groups if name in rows and not rows[name].suspended]
    if not working:
        return f"step {step.name}: {why_halted(rows)}"
    if any(rows[name].kind == "lambda" for name in working):
        return ""
    need, crew = need_of(step), live_crew(mill, working, now)
    if any(runs(worker.apps, need) for worker in crew):
        return ""
    named = f"group {working[0]}" if len(working) == 1 else f"groups {', '.join(working)}"
    others = f"; {why_halted(rows)}" if len(working) < len(rows) else ""
    if crew:
        return f"step {step.name}: no live worker of {named} runs {need!r}{others}"
    absent = {
        f"{worker.name} ({_why_absent(worker)})"
        for members in mill.recent_workers.get(working, _read(mill), now).values()
        for worker in members
    }
    hint = f"; there are {', '.join(sorted(absent)[:5])}" if absent else ""
    return f"step {step.name}: {named} has no live worker{hint}{others}"


def _why_absent(worker: WorkerRow) -> str:
    if worker.suspended or worker.tired:
        return f"{worker.notes or worker.tired}: `shardmill workers resume {worker.name}`"
    return "it is leaving" if worker.drain or worker.offline else "silent"
