"""Secrets in documents: their mask in answers, references to where they are stored, and signing keys.

Functions that need no models import this module, so it does not import pydantic.
"""

from __future__ import annotations

import base64
import binascii
import re

MASK = "********"
SEALED = "sealed:1:"
"""The prefix of an encrypted value; see aws/sealing.py."""

DATA_TOKEN = "SHARDMILL_DATA_TOKEN"  # noqa: S105 - the name of the variable
"""The environment variable of a task with the data token of its job."""

ENCODED_SECRET = "whsec_"  # noqa: S105 - the prefix of a base64 secret in Standard Webhooks
REFERENCE = re.compile(r"(ssm:[A-Za-z0-9_./-]{1,1011}|secretsmanager:[A-Za-z0-9/_+=.@-]{1,512})\Z", re.ASCII)


def is_reference(text: str) -> bool:
    """Whether a value is the name of a parameter or secret in AWS, not the secret itself."""
    return text.startswith(("ssm:", "secretsmanager:"))


def is_sealed(text: str) -> bool:
    return text.startswith(SEALED)


def secret_bytes(secret: str) -> bytes:
    """The signing key of a secret; raises ValueError if its prefix promises base64 and the rest is not."""
    if not secret.startswith(ENCODED_SECRET):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(ENCODED_SECRET), validate=True)
    except binascii.Error as error:
        raise ValueError("must be base64 after the prefix whsec_") from error
