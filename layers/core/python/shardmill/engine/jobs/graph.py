"""The graph of a run as rows: its steps, a gate after each phase, the end."""

from __future__ import annotations

from collections.abc import Sequence

from shardmill.engine.jobs.effective import INHERITED
from shardmill.model.base import from_ms
from shardmill.model.definition.fields import StepDefine, upstream_of
from shardmill.model.definition.references import steps_read_by
from shardmill.model.states import StepState
from shardmill.store.rows import JobRow, StepRow


def graph(steps: Sequence[StepDefine], job: JobRow, now: int) -> list[StepRow]:
    """Return all nodes of a run; a phase waits for one gate, not for each earlier step.

    `steps`: the steps of the definition with their effective settings.
    """
    index_of = {step.step_name: index for index, step in enumerate(steps)}
    phases = sorted({step.phase for step in steps})
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
    down: list[list[int]] = [[] for _ in waiting]
    for index, own in enumerate(waiting):
        for upstream in own:
            down[upstream].append(index)
    rows, given = [], job.submitted_files
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
            root=not own,
        )
        if index < len(steps):
            row = _with_settings(row, steps[index], job)
            refs = {name: index_of[name] for name in steps_read_by(row.spec)}
            context = {**row.context, **({"refs": refs} if refs else {})}
            if given and _reads_files(steps[index]):
                context["given"] = given
            rows.append(row.evolve(context=context))
        else:
            rows.append(row.evolve(kind="gate", name=f"phase {phases[index - len(steps)]}"))
    rows[-1] = rows[-1].evolve(kind="end")
    return rows


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
    context = {}
    if job.data_time is not None:
        context["dataTime"] = from_ms(job.data_time).strftime("%Y-%m-%dT%H:%M:%SZ")
    return row.evolve(
        name=spec.step_name,
        spec=stored,
        groups=spec.worker_groups,
        priority=spec.priority if spec.priority is not None else 1,
        context=context,
    )
