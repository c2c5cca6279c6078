"""Secrets in SSM Parameter Store or Secrets Manager, which definitions refer to by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from shardmill.aws import clients

SSM = "ssm:"
SECRETS_MANAGER = "secretsmanager:"


class SecretUnavailable(Exception):
    """The secret that a definition refers to cannot be read."""


class Secrets:
    """Creates its clients on first use, because few functions need them."""

    def __init__(
        self,
        ssm: Callable[[], Any] = clients.ssm,
        secretsmanager: Callable[[], Any] = clients.secretsmanager,
    ) -> None:
        self._ssm = ssm
        self._secretsmanager = secretsmanager

    def resolve(self, reference: str) -> str:
        """The secret that `ssm:/path` or `secretsmanager:name` names; any other text is the secret itself."""
        try:
            if reference.startswith(SSM):
                return self._parameter(reference.removeprefix(SSM))
            if reference.startswith(SECRETS_MANAGER):
                return self._secret(reference.removeprefix(SECRETS_MANAGER))
        except (ClientError, BotoCoreError) as error:
            raise SecretUnavailable(
                f"{reference} cannot be read: {_why(error)}; check that it exists and that the stack's "
                "SecretPrefix allows it"
            ) from error
        return reference

    def _parameter(self, name: str) -> str:
        return str(self._ssm().get_parameter(Name=name, WithDecryption=True)["Parameter"]["Value"])

    def _secret(self, name: str) -> str:
        answer = self._secretsmanager().get_secret_value(SecretId=name)
        if "SecretString" not in answer:
            raise SecretUnavailable(f"{SECRETS_MANAGER}{name} is binary; store it as a string")
        return str(answer["SecretString"])


def _why(error: ClientError | BotoCoreError) -> str:
    """The code only, because a message may contain values that must not be logged."""
    return error.response["Error"]["Code"] if isinstance(error, ClientError) else type(error).__name__
