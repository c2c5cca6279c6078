"""Where a stored definition has private values: environments of commands, and signing keys of webhooks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

from shardmill.model.fault import Fault, Path, fault
from shardmill.model.secrets.secret import SEALED, is_reference, is_sealed

Place = tuple[Path, dict[str, Any], str]
"""The path of a value, the object that contains it, and its name there."""
_REFERENCE = re.compile(r"(ssm|secretsmanager):[\w/.+=@:-]{1,1011}\Z", re.ASCII)
"""A reference in an environment, also with a version or as an ARN."""
_PLACEHOLDER = re.compile(r"\{\{.*?\}\}", re.DOTALL)


def private_places(document: Mapping[str, Any]) -> Iterator[Place]:
    """The private values of a document in its canonical spelling; references to secrets are not private."""
    for place in _places(document):
        if not is_reference(place[1][place[2]]):
            yield place


def _places(document: Mapping[str, Any]) -> Iterator[Place]:
    for at, step in enumerate(document.get("steps", ())):
        environ = (step.get("command") or {}).get("environ") or {}
        for name in environ.get("private", {}):
            yield ("steps", at, "command", "environ", "private", name), environ["private"], name
    for at, notice in enumerate(document.get("notify", ())):
        if notice.get("webhook"):
            yield ("notify", at, "webhook", "secret"), notice["webhook"], "secret"


def with_private_values(
    document: dict[str, Any], change: Callable[[Sequence[str]], Sequence[str]]
) -> dict[str, Any]:
    """A copy of a document with all its private values changed together."""
    changed = deepcopy(document)
    places = list(private_places(changed))
    if not places:
        return document
    values = change([container[name] for _, container, name in places])
    for (_, container, name), value in zip(places, values, strict=True):
        container[name] = value
    return changed


def secret_faults(document: Mapping[str, Any]) -> list[Fault]:
    """Faults of values that look encrypted, and of references that name no secret: both would stay plain."""
    sealed = f"must not begin with {SEALED}, which marks values that Shardmill has encrypted"
    reference = "must be a reference such as ssm:/path/to/parameter or secretsmanager:name"
    faults = []
    for path, container, name in _places(document):
        text = container[name]
        if is_sealed(text):
            faults.append(fault(path, "bad-value", sealed))
        elif is_reference(text) and not _REFERENCE.match(_PLACEHOLDER.sub("x", text)):
            faults.append(fault(path, "bad-reference", reference))
    return faults
