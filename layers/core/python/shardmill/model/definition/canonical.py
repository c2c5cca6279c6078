"""A document while it is converted to its canonical spelling: values move, and their original paths are kept.

Faults that are found later point into the document as it was sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from shardmill.model.fault import MAX_HINTS, Fault, Path, did_you_mean, fault

TRAITS = {"canfail": "canFail", "canignore": "ignorable", "ignorable": "ignorable", "archive": ""}
"""The traits of step-and-shard engines without separators and capitals, and the fields that they set.

Tasks always stay readable, so that `archive` sets nothing.
"""
_SWITCHES = {"enable": True, "disable": False}


def given(sent: dict[str, Any], known: Iterable[str]) -> dict[str, Any]:
    """Drop known fields that are null."""
    known = frozenset(known)
    return {name: value for name, value in sent.items() if value is not None or name not in known}


@dataclass
class Canonical:
    """A document in canonical spelling, the original paths of its values, and the faults of its spelling."""

    document: dict[str, Any] = field(default_factory=dict)
    origins: dict[Path, Path] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    def fault(self, path: Path, code: str, message: str) -> None:
        self.faults.append(fault(path, code, message))

    def move(self, target: dict[str, Any], path: Path, old: Path, new: str, value: Any) -> bool:
        """Set the field `new` of `target`, which is at `path`, to a value that was sent at `old`."""
        if value is None:
            return False
        if new in target:
            first = ".".join(map(str, self.origins.get((*path, new), (*path, new))[len(path) :]))
            text = f"has the same meaning as {first!r}; give only one of them"
            self.fault((*path, *old), "both-spellings", text)
            return False
        target[new] = value
        self.origins[(*path, new)] = (*path, *old)
        return True

    def rename(self, target: dict[str, Any], path: Path, old: str, new: str) -> None:
        if old in target:
            self.move(target, path, (old,), new, target.pop(old))

    def one_to_list(self, target: dict[str, Any], path: Path, one: str, many: str) -> None:
        """Move a single value into a list."""
        if one in target and self.move(target, path, (one,), many, [target.pop(one)]):
            self.origins[(*path, many, 0)] = (*path, one)

    def extend(
        self, target: dict[str, Any], path: Path, old: Path, new: str, values: dict[Path, Any]
    ) -> None:
        """Add values that were sent at `old` to the list `new`, without repetitions.

        `values`: by the path of each.
        """
        if new not in target:
            target[new] = []
            self.origins[(*path, new)] = (*path, *old)
        present = target[new]
        if not isinstance(present, list):
            return  # the model finds that fault
        for place, value in values.items():
            if value not in present:
                self.origins[(*path, new, len(present))] = (*path, *place)
                present = [*present, value]
        target[new] = present

    def spread(self, target: dict[str, Any], path: Path, conf: str, moves: Mapping[str, str]) -> None:
        """Move the fields of the object `conf` into `target`."""
        for name, value in self.fields_of(target, path, conf, moves):
            self.move(target, path, (conf, name), moves[name], value)

    def fields_of(
        self, target: dict[str, Any], path: Path, conf: str, known: Iterable[str]
    ) -> Iterator[tuple[str, Any]]:
        """Remove the object `conf` and yield its known fields; others are faults."""
        values = target.pop(conf, {})
        if not isinstance(values, dict):
            self.fault((*path, conf), "bad-type", "must be an object")
            return
        for name, value in values.items():
            if name in known:
                yield name, value
            else:
                hint = did_you_mean(name, known) if len(self.faults) < MAX_HINTS else ""
                self.fault((*path, conf, name), "unknown-field", f"unknown field {name[:64]!r}{hint}")

    def traits(self, target: dict[str, Any], path: Path, *, switches: bool = False) -> None:
        """Convert `traits`, a list of names or an object of booleans, to the fields that they set.

        `switches`: the object may also have the lists `enable` and `disable`, as in a request.
        """
        for place, name, value in self._listed_traits(target, path, switches):
            new = TRAITS.get(re.sub(r"[^a-z]", "", name.lower()))
            if new is None:
                text = f"unknown trait {name[:64]!r}; use canFail, ignorable or archive"
                self.fault((*path, *place), "bad-value", text)
            elif new and target.get(new) is not value:
                self.move(target, path, place, new, value)

    def _listed_traits(
        self, target: dict[str, Any], path: Path, switches: bool
    ) -> Iterator[tuple[Path, str, bool]]:
        sent = target.pop("traits", [])
        if isinstance(sent, list):
            yield from self._names(path, ("traits",), sent, True)
        elif isinstance(sent, dict):
            for name, value in sent.items():
                place: Path = ("traits", name)
                if switches and name in _SWITCHES:
                    yield from self._names(path, place, value, _SWITCHES[name])
                elif isinstance(value, bool):
                    yield place, name, value
                else:
                    self.fault((*path, *place), "bad-type", "must be true or false")
        else:
            self.fault((*path, "traits"), "bad-type", "must be a list of names or an object of booleans")

    def _names(self, path: Path, place: Path, names: Any, value: bool) -> Iterator[tuple[Path, str, bool]]:
        if not isinstance(names, list):
            self.fault((*path, *place), "bad-type", "must be a list of names")
            return
        for at, name in enumerate(names):
            if isinstance(name, str):
                yield (*place, at), name, value
            else:
                self.fault((*path, *place, at), "bad-type", "must be a string")
