"""Gates: nodes without tasks, which let a later phase begin when everything before them is over."""

from __future__ import annotations

from collections.abc import Sequence

from shardmill.store.rows import StepRow


def is_over(nodes: Sequence[StepRow], gate: StepRow) -> bool:
    """Whether every step before a gate has ended.

    A gate waits for the last steps of its phase; those may end by somebody's word before what they wait for.
    """
    before: dict[int, list[StepRow]] = {}
    for node in nodes:
        for index in node.down:
            before.setdefault(index, []).append(node)
    found, new = {gate.index}, [gate.index]
    while new:
        for node in before.get(new.pop(), ()):
            if node.kind == "step" and not node.state.ended:
                return False
            if node.index not in found:
                found.add(node.index)
                new.append(node.index)
    return True
