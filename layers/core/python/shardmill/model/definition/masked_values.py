"""Keep the private values of a saved definition where a document has the mask that answers show.

A value is kept only for the command or webhook that it was saved for. Otherwise, anybody who can save
a definition could pass its secrets to a program or an address of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from shardmill.model.secrets.secret import MASK

_NOT_PART_OF_THE_PROGRAM = ("environ", "description", "hasPrivateEnv")


def has_masks(document: object) -> bool:
    return any(True for _ in _private(document)) or any(True for _ in _webhooks(document))


def keep_masked_values(document: object, saved: Mapping[str, Any]) -> object:
    """Return a document with the masked values that the saved definition has; other masks stay."""
    document = deepcopy(document)
    commands = {step["stepName"]: step.get("command") for step in saved["steps"]}
    for step_name, command, private in _private(document):
        known = commands.get(step_name)
        if known and _program(known) == _program(command):
            values = known.get("environ", {}).get("private", {})
            private |= {name: values.get(name, value) for name, value in private.items() if value == MASK}
    notices = saved.get("notify", [])
    for at, webhook in _webhooks(document):
        same = [each.get("webhook") for each in [*notices[at : at + 1], *notices]]
        known = next((each for each in same if each and each["url"] == webhook.get("url")), None)
        if known:
            webhook["secret"] = known["secret"]
    return document


def _private(document: object) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """The name, the command and the private environment of each step that has a mask."""
    for step in _objects(document, "steps"):
        name, command = step.get("stepName"), step.get("command")
        if not isinstance(name, str) or not isinstance(command, dict):
            continue
        environ = command.get("environ")
        private = environ.get("private") if isinstance(environ, dict) else None
        if isinstance(private, dict) and MASK in private.values():
            yield name, command, private


def _webhooks(document: object) -> Iterator[tuple[int, dict[str, Any]]]:
    """The position and the webhook of each receiver whose secret is the mask."""
    for at, notice in enumerate(_objects(document, "notify")):
        webhook = notice.get("webhook")
        if isinstance(webhook, dict) and webhook.get("secret") == MASK:
            yield at, webhook


def _objects(document: object, name: str) -> list[dict[str, Any]]:
    found = document.get(name) if isinstance(document, dict) else None
    return [each if isinstance(each, dict) else {} for each in found] if isinstance(found, list) else []


def _program(command: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in command.items()
        if value is not None and name not in _NOT_PART_OF_THE_PROGRAM
    }
