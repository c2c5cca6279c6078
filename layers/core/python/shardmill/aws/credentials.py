"""The AWS credentials of this process, kept after they were removed from its environment."""

from __future__ import annotations

import os
from collections.abc import Mapping

import boto3

VARIABLES = (
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN"),
    *("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"),
    *("AWS_CONTAINER_AUTHORIZATION_TOKEN", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"),
)
"""The variables that contain credentials, or tell where a container gets them."""

_taken: dict[str, str] = {}


def take_from_environment() -> None:
    """Move the credentials of the environment into this module; `new_session` uses them.

    Clients that exist already cannot renew credentials of a container afterwards, so call this first.
    """
    _taken.update({name: os.environ.pop(name) for name in VARIABLES if name in os.environ})


def new_session() -> boto3.Session:
    """A boto3 session with the credentials that it would find if they were still in the environment."""
    return _session_with(_taken) if _taken else boto3.Session()


def _session_with(taken: Mapping[str, str]) -> boto3.Session:
    import botocore.session
    from botocore.credentials import ContainerProvider, EnvProvider

    session = botocore.session.Session()
    resolver = session.get_component("credential_provider")
    names = {provider.METHOD for provider in resolver.providers}
    for provider in (EnvProvider(taken), ContainerProvider(taken)):
        if provider.METHOD in names:  # with a profile, boto3 ignores the environment
            resolver.insert_after(provider.METHOD, provider)
            resolver.remove(provider.METHOD)  # the first of that name, which is boto3's own
    return boto3.Session(botocore_session=session)
