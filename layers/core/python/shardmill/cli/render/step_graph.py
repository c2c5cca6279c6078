"""Draw the steps of a definition as text, Mermaid or Graphviz."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby, pairwise
from typing import Any

from shardmill.model.definition.fields import JobDefine, StepDefine, upstream_of
from shardmill.model.definition.task_count import total

_TIMES_SIGN = "\u00d7"


def nodes_and_edges(define: JobDefine) -> dict[str, Any]:
    """Return the graph as JSON values."""
    nodes = [
        {"stepName": step.step_name, "type": step.type, "tasks": total(step), "phase": step.phase}
        for step in define.steps
    ]
    edges = [{"from": before, "to": step.step_name} for step in define.steps for before in upstream_of(step)]
    return {"jobName": define.job_name, "nodes": nodes, "edges": edges}


def text(define: JobDefine) -> str:
    """Draw each step below the steps that it depends on."""
    lines = [define.job_name]
    phases = _phases(define)
    for phase, steps in phases:
        if len(phases) > 1:
            lines.append(f"phase {phase}")
        depths: dict[str, int] = {}
        for step in topological_order(steps):
            depth = depths[step.step_name] = max(
                (depths[b] + 1 for b in upstream_of(step) if b in depths), default=0
            )
            named = step.dependent_steps or step.done_steps
            after = f"  after {', '.join(upstream_of(step))}" if named else ""
            lines.append(f"{'  ' * (depth + 1)}{_label(step)} {step.type}{after}")
    return "\n".join(lines)


def mermaid(define: JobDefine) -> str:
    ids = {step.step_name: f"s{at}" for at, step in enumerate(define.steps)}
    lines = ["flowchart LR"]
    phases = _phases(define)
    for phase, steps in phases:
        nodes = [f'{ids[step.step_name]}["{_label(step)}"]' for step in steps]
        if len(phases) == 1:
            lines += [f"  {node}" for node in nodes]
        else:
            lines += [f"  subgraph p{phase}[phase {phase}]", *(f"    {node}" for node in nodes), "  end"]
    lines += [
        f"  {ids[before]} --> {ids[step.step_name]}" for step in define.steps for before in upstream_of(step)
    ]
    lines += [f"  p{earlier} -.-> p{later}" for earlier, later in _phase_edges(phases)]
    return "\n".join(lines)


def dot(define: JobDefine) -> str:
    lines = [f'digraph "{define.job_name}" {{', "  rankdir=LR", "  compound=true", "  node [shape=box]"]
    phases = _phases(define)
    for phase, steps in phases:
        nodes = [f'"{step.step_name}" [label="{_label(step)}"]' for step in steps]
        if len(phases) == 1:
            lines += [f"  {node}" for node in nodes]
        else:
            inside = [f'    label="phase {phase}"', *(f"    {node}" for node in nodes)]
            lines += [f"  subgraph cluster_{phase} {{", *inside, "  }"]
    lines += [f'  "{before}" -> "{step.step_name}"' for step in define.steps for before in upstream_of(step)]
    firsts = {phase: steps[0].step_name for phase, steps in phases}
    lines += [
        f'  "{firsts[earlier]}" -> "{firsts[later]}" '
        f"[style=dashed, ltail=cluster_{earlier}, lhead=cluster_{later}]"
        for earlier, later in _phase_edges(phases)
    ]
    return "\n".join([*lines, "}"])


FORMATS: dict[str, Callable[[JobDefine], str]] = {"text": text, "mermaid": mermaid, "dot": dot}


def topological_order(steps: list[StepDefine]) -> Iterator[StepDefine]:
    """Yield each step after the steps that it depends on, otherwise in document order."""
    names = {step.step_name for step in steps}
    pending = {step.step_name: {name for name in upstream_of(step) if name in names} for step in steps}
    dependents: dict[str, list[StepDefine]] = {}
    for step in steps:
        for name in pending[step.step_name]:
            dependents.setdefault(name, []).append(step)
    ready = [step for step in reversed(steps) if not pending[step.step_name]]
    while ready:
        step = ready.pop()
        yield step
        for dependent in reversed(dependents.get(step.step_name, [])):
            pending[dependent.step_name].discard(step.step_name)
            if not pending[dependent.step_name]:
                ready.append(dependent)


def _label(step: StepDefine) -> str:
    return f"{step.step_name} {_TIMES_SIGN}{total(step) or '?'}"


def _phases(define: JobDefine) -> list[tuple[int, list[StepDefine]]]:
    by_phase = sorted(define.steps, key=lambda step: step.phase)
    return [(phase, list(steps)) for phase, steps in groupby(by_phase, key=lambda step: step.phase)]


def _phase_edges(phases: list[tuple[int, list[StepDefine]]]) -> list[tuple[int, int]]:
    """A phase starts when the previous one has ended, whatever its outcome."""
    numbers = [phase for phase, _ in phases]
    return list(pairwise(numbers))
