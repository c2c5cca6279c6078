"""Which steps wait for which, and the circles in that, without recursion."""

from __future__ import annotations

from collections.abc import Sequence


def cycles(waits_for: Sequence[Sequence[int]]) -> list[list[int]]:
    """Circles of nodes that wait for each other, each from its lowest node on.

    Where circles share nodes not all are listed, but none is listed only where there is none.
    """
    found: list[list[int]] = []
    reported: set[int] = set()
    depth_of: dict[int, int] = {}  # of the nodes on the way that is walked now
    done: set[int] = set()
    for start in range(len(waits_for)):
        if start in done:
            continue
        way = [(start, iter(waits_for[start]))]
        depth_of[start] = 0
        while way:
            node, targets = way[-1]
            target = next(targets, None)
            if target is None:
                way.pop()
                del depth_of[node]
                done.add(node)
            elif target in depth_of:
                if node not in reported:
                    circle = [each for each, _ in way[depth_of[target] :]]
                    reported.update(circle)
                    found.append(_from_lowest(circle))
            elif target not in done:
                depth_of[target] = len(way)
                way.append((target, iter(waits_for[target])))
    return found


def _from_lowest(circle: list[int]) -> list[int]:
    lowest = circle.index(min(circle))
    return circle[lowest:] + circle[:lowest]
