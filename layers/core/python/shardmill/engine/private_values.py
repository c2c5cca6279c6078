"""Encrypt secrets for the table, and decrypt them for authorized users.

The context binds a value to its definition, job or event: it cannot be decrypted for another one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shardmill.aws.secrets import SecretAccess, Secrets
from shardmill.engine.mill import Mill
from shardmill.model.definition.private_values import with_private_values
from shardmill.model.secrets.secret import MASK, is_sealed

_TOKEN = "dataToken"  # noqa: S105 - the name of a field


def seal_definition(mill: Mill, job_name: str, document: dict[str, Any]) -> dict[str, Any]:
    return with_private_values(document, lambda values: mill.sealer.seal(values, _definition(job_name)))


def open_definition(mill: Mill, job_name: str, document: dict[str, Any]) -> dict[str, Any]:
    """Raises SecretUnavailable."""
    context = _definition(job_name)
    return with_private_values(document, lambda values: [mill.sealer.open(each, context) for each in values])


def open_private(mill: Mill, job_name: str, value: str) -> str:
    """A private value of a definition, in plain text. Raises SecretUnavailable."""
    return mill.sealer.open(value, _definition(job_name))


def resolve(mill: Mill, reference: str, app_name: str) -> str:
    """The secret in AWS that a definition of an application refers to. Raises SecretUnavailable."""
    return Secrets(access=SecretAccess.of(mill.settings)).resolve(reference, app_name)


def seal_data_token(mill: Mill, job_id: str, token: str) -> str:
    return mill.sealer.seal([token], {"job": job_id})[0]


def open_data_token(mill: Mill, job_id: str, token: str) -> str:
    return mill.sealer.open(token, {"job": job_id})


def seal_event(mill: Mill, trigger: str, event: Any) -> Any:
    """An event for `submit`, without the data token of its request in plain text."""

    def seal(token: str) -> str:
        return token if token == MASK or is_sealed(token) else mill.sealer.seal([token], _event(trigger))[0]

    return _with_token(event, seal)


def open_event(mill: Mill, trigger: str, event: Any) -> Any:
    """Raises SecretUnavailable."""
    return _with_token(event, lambda token: mill.sealer.open(token, _event(trigger)))


def masked_event(event: Any) -> Any:
    return _with_token(event, lambda _: MASK)


def _with_token(event: Any, change: Callable[[str], str]) -> Any:
    if not isinstance(event, dict):
        return event
    changed = {**event, **({"detail": _with_token(event["detail"], change)} if "detail" in event else {})}
    if (token := event.get(_TOKEN)) is not None:
        changed[_TOKEN] = change(token) if isinstance(token, str) else MASK  # other types are never valid
    return changed


def _definition(job_name: str) -> dict[str, str]:
    return {"definition": job_name}


def _event(trigger: str) -> dict[str, str]:
    return {"event": trigger}
