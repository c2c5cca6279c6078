"""Secrets in SSM Parameter Store or Secrets Manager, which definitions refer to by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from shardmill.aws import clients
from shardmill.aws.settings import Settings
from shardmill.model.secrets.secret import is_reference

SSM = "ssm:"
SECRETS_MANAGER = "secretsmanager:"


class SecretUnavailable(Exception):
    """The secret that a definition refers to cannot be read."""


@dataclass(frozen=True, slots=True)
class SecretAccess:
    """Which references may be resolved, apart from what IAM allows.

    `key_parameter` is the key of sealed texts, which no task may read. With `by_application`, a name begins
    with `prefix/APPLICATION/` or `prefix/shared/`.
    """

    key_parameter: str = ""
    prefix: str = ""
    by_application: bool = False

    @classmethod
    def of(cls, settings: Settings) -> SecretAccess:
        return cls(settings.key_parameter, settings.secret_prefix, settings.secrets_by_application)

    def allows(self, reference: str, app_name: str) -> bool:
        name = reference.partition(":")[2].strip("/")
        if self.key_parameter and self.key_parameter.strip("/") in name:
            return False
        return not self.by_application or name.startswith(tuple(self._folders(app_name)))

    def rule(self, app_name: str) -> str:
        if not self.by_application:
            return "it is the key that encrypts the secrets of this stack"
        return f"names must begin with {' or '.join(self._folders(app_name))}"

    def _folders(self, app_name: str) -> list[str]:
        return [f"{self.prefix}/{name}/" for name in (app_name, "shared") if name]


class Secrets:
    """Creates its clients on first use, because few functions need them."""

    def __init__(
        self,
        ssm: Callable[[], Any] = clients.ssm,
        secretsmanager: Callable[[], Any] = clients.secretsmanager,
        *,
        access: SecretAccess | None = None,
    ) -> None:
        self._access = access or SecretAccess()
        self._ssm = ssm
        self._secretsmanager = secretsmanager

    def resolve(self, reference: str, app_name: str = "") -> str:
        """The secret that `ssm:/path` or `secretsmanager:name` names; any other text is the secret itself.

        `app_name`: the application whose job or notification needs it.
        """
        if is_reference(reference) and not self._access.allows(reference, app_name):
            raise SecretUnavailable(f"{reference} cannot be read: {self._access.rule(app_name)}")
        try:
            if reference.startswith(SSM):
                return self._parameter(reference.removeprefix(SSM))
            if reference.startswith(SECRETS_MANAGER):
                return self._secret(reference.removeprefix(SECRETS_MANAGER))
        except (ClientError, BotoCoreError) as error:
            raise SecretUnavailable(
                f"{reference} cannot be read: {reason_of(error)}; check that it exists and that the stack's "
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


def reason_of(error: ClientError | BotoCoreError) -> str:
    """Only the code of the error, because its message may contain values that must not be logged."""
    return error.response["Error"]["Code"] if isinstance(error, ClientError) else type(error).__name__
