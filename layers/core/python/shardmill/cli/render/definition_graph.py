"""Draw the dependencies between definitions as text, Mermaid or Graphviz."""

from __future__ import annotations

from collections.abc import Callable

from shardmill.model.definition.answers import JobGraph, JobNode


def text(graph: JobGraph) -> str:
    """Draw each definition below its parents; a repeated definition is drawn by its name only."""
    nodes = {node.job_name: node for node in graph.nodes}
    children: dict[str, list[str]] = {}
    for edge in graph.edges:
        children.setdefault(edge.parent, []).append(edge.child)
    dependent = {edge.child for edge in graph.edges if edge.child != edge.parent}
    roots = [name for name in nodes if name not in dependent]
    drawn: set[str] = set()
    lines: list[str] = []
    stack = [(0, name) for name in reversed([*roots, *nodes])]  # `nodes` again for cycles, which have no root
    while stack:
        depth, name = stack.pop()
        if name not in drawn:
            lines.append("  " * depth + _label(nodes[name]))
            stack += [(depth + 1, child) for child in reversed(children.get(name, []))]
            drawn.add(name)
        elif depth:
            lines.append("  " * depth + name)
    return "\n".join(lines)


def mermaid(graph: JobGraph) -> str:
    ids = {node.job_name: f"j{at}" for at, node in enumerate(graph.nodes)}
    lines = [f'  {ids[node.job_name]}["{_label(node)}"]' for node in graph.nodes]
    lines += [f"  {ids[edge.parent]} --> {ids[edge.child]}" for edge in graph.edges]
    return "\n".join(["flowchart LR", *lines])


def dot(graph: JobGraph) -> str:
    lines = [f'  "{node.job_name}" [label="{_label(node)}"]' for node in graph.nodes]
    lines += [f'  "{edge.parent}" -> "{edge.child}"' for edge in graph.edges]
    return "\n".join(['digraph "jobs" {', "  rankdir=LR", "  node [shape=box]", *lines, "}"])


FORMATS: dict[str, Callable[[JobGraph], str]] = {"text": text, "mermaid": mermaid, "dot": dot}


def _label(node: JobNode) -> str:
    schedules = f" [{', '.join(node.schedules)}]" if node.schedules else ""
    return f"{node.job_name}{schedules}{'' if node.defined else ' (not defined)'}"
