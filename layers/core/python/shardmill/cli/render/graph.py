"""The graph of a definition's steps as text, Mermaid or Graphviz."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby, pairwise
from typing import Any

from shardmill.model.definition.fields import JobDefine, StepDefine, total, upstream_of

TIMES = "\u00d7"


def graph(define: JobDefine) -> dict[str, Any]:
    """Nodes and edges, for programs."""
    nodes = [
        {"stepName": step.step_name, "type": step.type, "tasks": total(step), "phase": step.phase}
        for step in define.steps
    ]
    edges = [{"from": before, "to": step.step_name} for step in define.steps for before in _before(step)]
    return {"jobName": define.job_name, "nodes": nodes, "edges": edges}


def text(define: JobDefine) -> str:
    """Every step below those that it waits for."""
    lines = [define.job_name]
    phases = _phases(define)
    for phase, steps in phases:
        if len(phases) > 1:
            lines.append(f"phase {phase}")
        depths: dict[str, int] = {}
        for step in in_order(steps):
            depth = depths[step.step_name] = max(
                (depths[b] + 1 for b in _before(step) if b in depths), default=0
            )
            after = f"  after {', '.join(_before(step))}" if step.dependent_steps else ""
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
        f"  {ids[before]} --> {ids[step.step_name]}" for step in define.steps for before in _before(step)
    ]
    lines += [f"  p{earlier} -.-> p{later}" for earlier, later in _gates(phases)]
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
    lines += [f'  "{before}" -> "{step.step_name}"' for step in define.steps for before in _before(step)]
    firsts = {phase: steps[0].step_name for phase, steps in phases}
    lines += [
        f'  "{firsts[earlier]}" -> "{firsts[later]}" '
        f"[style=dashed, ltail=cluster_{earlier}, lhead=cluster_{later}]"
        for earlier, later in _gates(phases)
    ]
    return "\n".join([*lines, "}"])


FORMATS: dict[str, Callable[[JobDefine], str]] = {"text": text, "mermaid": mermaid, "dot": dot}


def in_order(steps: list[StepDefine]) -> Iterator[StepDefine]:
    """Each step after those that it waits for, otherwise as the document has them."""
    names = {step.step_name for step in steps}
    left = {step.step_name: {name for name in _before(step) if name in names} for step in steps}
    waiters: dict[str, list[StepDefine]] = {}
    for step in steps:
        for name in left[step.step_name]:
            waiters.setdefault(name, []).append(step)
    ready = [step for step in reversed(steps) if not left[step.step_name]]
    while ready:
        step = ready.pop()
        yield step
        for waiter in reversed(waiters.get(step.step_name, [])):
            left[waiter.step_name].discard(step.step_name)
            if not left[waiter.step_name]:
                ready.append(waiter)


def _before(step: StepDefine) -> list[str]:
    return upstream_of(step)


def _label(step: StepDefine) -> str:
    return f"{step.step_name} {TIMES}{total(step) or '?'}"


def _phases(define: JobDefine) -> list[tuple[int, list[StepDefine]]]:
    by_phase = sorted(define.steps, key=lambda step: step.phase)
    return [(phase, list(steps)) for phase, steps in groupby(by_phase, key=lambda step: step.phase)]


def _gates(phases: list[tuple[int, list[StepDefine]]]) -> list[tuple[int, int]]:
    """A later phase starts when the earlier is over, whatever its outcome."""
    numbers = [phase for phase, _ in phases]
    return list(pairwise(numbers))
