"""The names of a deployment's resources, from the environment variables that template.yaml sets."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from shardmill.model.access.limits import Limits


class SettingMissing(Exception):
    """An environment variable of the deployment is missing."""


def iam_scopes(environ: Mapping[str, str] = os.environ) -> list[str]:
    """The scopes of requests that API Gateway authorizes with IAM."""
    return environ.get("SHARDMILL_IAM_SCOPES", "").split(",")


def _need(environ: Mapping[str, str], name: str) -> str:
    try:
        return environ[f"SHARDMILL_{name}"]
    except KeyError:
        raise SettingMissing(
            f"SHARDMILL_{name} is not set; template.yaml sets it for the functions"
        ) from None


MAX_BODY_BYTES = 4_500_000
"""A Lambda function receives and returns at most 6 MB; base64 makes a file a third larger."""


class TokenSettings(NamedTuple):
    """The settings with which functions/authorizer checks tokens."""

    admin_hash: str
    key: str
    table: str

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> TokenSettings:
        names = ("ADMIN_TOKEN_HASH", "TOKEN_KEY", "TABLE")
        return cls(*(_need(environ, name) for name in names))


class OidcSettings(NamedTuple):
    """The issuer whose JWTs are accepted.

    `client_id`, `client_scopes`: with which the dashboard signs in; without an id it asks for a token.
    """

    issuer: str
    audience: str
    scopes_claim: str = "scope"
    user_claim: str = "sub"
    client_id: str = ""
    client_scopes: str = ""

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> OidcSettings | None:
        """None if the deployment has no issuer."""
        if not environ.get("SHARDMILL_OIDC_ISSUER"):
            return None
        names = ("ISSUER", "AUDIENCE", "SCOPES_CLAIM", "USER_CLAIM", "CLIENT_ID", "CLIENT_SCOPES")
        return cls(*(_need(environ, f"OIDC_{name}") for name in names))


class Settings(NamedTuple):
    stack: str
    table: str
    bucket: str
    job_machine: str
    step_machine: str
    bus: str
    lambda_queue: str
    dead_queue: str
    queue_prefix: str = ""
    secrets_key: str = ""
    secret_prefix: str = ""
    secrets_by_application: bool = False
    fire_queue: str = ""
    notify_queue: str = ""
    notify_loopback: bool = False
    submit_dead_queue: str = ""
    notify_dead_queue: str = ""
    empty_bucket: bool = False
    token_key: str = ""
    event_definitions: tuple[str, ...] = ("*",)
    token_rate: int = 0
    machine_alias: str = ""
    limits: Limits = Limits()
    max_body: int = MAX_BODY_BYTES

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> Settings:
        need = partial(_need, environ)

        return cls(
            stack=need("STACK"),
            table=need("TABLE"),
            bucket=need("BUCKET"),
            job_machine=need("JOB_MACHINE"),
            step_machine=need("STEP_MACHINE"),
            bus=need("BUS"),
            lambda_queue=need("LAMBDA_QUEUES").split(",")[0],  # several in stacks of earlier releases
            dead_queue=need("DEAD_QUEUE"),
            secrets_key=environ.get("SHARDMILL_SECRETS_KEY", ""),
            secret_prefix=environ.get("SHARDMILL_SECRET_PREFIX", ""),
            secrets_by_application=environ.get("SHARDMILL_SECRETS_BY_APPLICATION") == "true",
            queue_prefix=environ.get("SHARDMILL_QUEUE_PREFIX", ""),  # functions/api and functions/setup
            fire_queue=environ.get(
                "SHARDMILL_FIRE_QUEUE", ""
            ),  # functions/tick and functions/fire send to it
            notify_queue=environ.get("SHARDMILL_NOTIFY_QUEUE", ""),  # functions/notify and functions/api
            notify_loopback=environ.get("SHARDMILL_NOTIFY_LOOPBACK") == "true",
            submit_dead_queue=environ.get("SHARDMILL_SUBMIT_DEAD_QUEUE", ""),  # only functions/api has it
            notify_dead_queue=environ.get("SHARDMILL_NOTIFY_DEAD_QUEUE", ""),  # only functions/api has it
            token_key=environ.get("SHARDMILL_TOKEN_KEY", ""),  # functions/authorizer and functions/api
            event_definitions=tuple(environ.get("SHARDMILL_EVENT_DEFINITIONS", "*").split(",")),  # submit
            token_rate=int(environ.get("SHARDMILL_TOKEN_RATE", "0")),  # functions/api and functions/lease
            limits=Limits.parse(environ.get("SHARDMILL_APPLICATION_LIMITS", "")),  # all functions have it
            empty_bucket=environ.get("SHARDMILL_EMPTY_BUCKET") == "true",  # only functions/setup has it
            machine_alias=environ.get("SHARDMILL_MACHINE_ALIAS", ""),  # emulators have none
            max_body=int(environ.get("SHARDMILL_MAX_BODY_BYTES", MAX_BODY_BYTES)),  # the laptop cloud has it
        )

    @property
    def key_parameter(self) -> str:
        """The SSM parameter with the key that encrypts secrets; no definition can refer to it."""
        return f"/shardmill-keys/{self.stack}"
