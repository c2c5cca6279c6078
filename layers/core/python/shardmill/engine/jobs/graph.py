"""The graph of a run as rows: its steps, a gate after each phase, the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shardmill.engine.jobs.effective import INHERITED, ignored_steps
from shardmill.model.definition.fields import StepDefine, needed_by, upstream_of
from shardmill.model.definition.references import steps_read_by
from shardmill.model.secrets.secret import is_reference
from shardmill.model.states import StepState
from shardmill.model.timestamps import utc_text
from shardmill.store.rows import JobRow, StepRow

_WITHOUT_PROGRAM = ("noop", "http", "lambda")
"""The types whose tasks have no environment, and therefore no data token."""


def graph(steps: Sequence[StepDefine], job: JobRow, now: int) -> list[StepRow]:
    """Return all nodes of a run; a phase waits for one gate, not for each earlier step.

    `steps`: the steps of the definition with their effective settings.
    """
    index_of = {step.step_name: index for index, step in enumerate(steps)}
    phases = sorted({step.phase for step in steps})
    waiting = _upstream_nodes(steps, index_of, phases)
    down: list[list[int]] = [[] for _ in waiting]
    for index, own in enumerate(waiting):
        for upstream in own:
            down[upstream].append(index)
    rows, given, ignored = [], job.submitted_files, ignored_steps(job)
    loose = _loose_edges(steps, index_of)
    for index, own in enumerate(waiting):
        row = StepRow(
            job_id=job.id,
            run=job.run,
            index=index,
            name="",
            state=StepState.WAITING,
            job_name=job.job_name,
            trigger=job.trigger,
            create_time=now,
            update_time=now,
            waiting={str(upstream) for upstream in own},
            down=down[index],
            loose=loose.get(index, []),
            root=not own,
        )
        if index < len(steps):
            row = _with_settings(row, steps[index], job)
            refs = {name: index_of[name] for name in steps_read_by(row.spec)}
            context = {**row.context, **({"refs": refs} if refs else {})}
            if given and _reads_files(steps[index]):
                context["given"] = given
            rows.append(row.evolve(context=context, ignored=row.name in ignored))
        else:
            rows.append(row.evolve(kind="gate", name=f"phase {phases[index - len(steps)]}"))
    rows[-1] = rows[-1].evolve(kind="end")
    return rows


def _upstream_nodes(
    steps: Sequence[StepDefine], index_of: Mapping[str, int], phases: Sequence[int]
) -> list[set[int]]:
    """Return for each step, and then for the gate of each phase, the nodes that it waits for."""
    gate_of = {phase: len(steps) + at for at, phase in enumerate(phases)}
    waiting: list[set[int]] = [{index_of[name] for name in upstream_of(step)} for step in steps]
    for step, own in zip(steps, waiting, strict=True):
        if step.phase != phases[0]:
            own.add(gate_of[phases[phases.index(step.phase) - 1]])
    has_successor = {
        upstream
        for step, own in zip(steps, waiting, strict=True)
        for upstream in own
        if upstream < len(steps) and steps[upstream].phase == step.phase
    }
    for phase in phases:
        waiting.append({i for i, step in enumerate(steps) if step.phase == phase and i not in has_successor})
    return waiting


def _loose_edges(steps: Sequence[StepDefine], index_of: Mapping[str, int]) -> dict[int, list[int]]:
    """Return by step the steps that wait for its end, whatever its outcome."""
    loose: dict[int, list[int]] = {}
    for index, step in enumerate(steps):
        for name in set(step.done_steps).difference(needed_by(step)):
            loose.setdefault(index_of[name], []).append(index)
    return loose


def _reads_files(step: StepDefine) -> bool:
    return bool(step.inputs or step.predata)


def _with_settings(row: StepRow, spec: StepDefine, job: JobRow) -> StepRow:
    stored = spec.model_dump(mode="json", by_alias=True, exclude_defaults=True) | {
        name: spec_value
        for name, spec_value in spec.model_dump(
            mode="json",
            by_alias=True,
            include={*INHERITED, "type", "can_fail", "fail_fast", "tolerated_failures"},
        ).items()
        if spec_value is not None
    }
    context: dict[str, Any] = {}
    if job.data_time is not None:
        context["dataTime"] = utc_text(job.data_time)
    if job.has_token and spec.type not in _WITHOUT_PROGRAM:
        context["token"] = True
    if job.app_name and spec.command and any(map(is_reference, spec.command.environ.private.values())):
        context["app"] = job.app_name  # which secrets it may refer to
    return row.evolve(
        name=spec.step_name,
        spec=stored,
        groups=spec.worker_groups,
        priority=spec.priority if spec.priority is not None else 1,
        context=context,
    )
