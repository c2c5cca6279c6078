"""Detection of cycles in a dependency graph, without recursion."""

from __future__ import annotations

from collections.abc import Sequence


def cycles(waits_for: Sequence[Sequence[int]]) -> list[list[int]]:
    """Cycles of nodes that wait for each other, each starting at its lowest node.

    Not all cycles that share nodes are returned, but the result is empty only if there is none.
    """
    found: list[list[int]] = []
    reported: set[int] = set()
    depth_of: dict[int, int] = {}  # of the nodes on the current path
    done: set[int] = set()
    for start in range(len(waits_for)):
        if start in done:
            continue
        path = [(start, iter(waits_for[start]))]
        depth_of[start] = 0
        while path:
            node, targets = path[-1]
            target = next(targets, None)
            if target is None:
                path.pop()
                del depth_of[node]
                done.add(node)
            elif target in depth_of:
                if node not in reported:
                    cycle = [each for each, _ in path[depth_of[target] :]]
                    reported.update(cycle)
                    found.append(_from_lowest(cycle))
            elif target not in done:
                depth_of[target] = len(path)
                path.append((target, iter(waits_for[target])))
    return found


def _from_lowest(cycle: list[int]) -> list[int]:
    lowest = cycle.index(min(cycle))
    return cycle[lowest:] + cycle[:lowest]
