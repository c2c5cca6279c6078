"""Secrets in documents: their mask in answers, references to where they are stored, and signing keys."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

MASK = "********"
ENCODED_SECRET = "whsec_"  # noqa: S105 - the prefix of a base64 secret in Standard Webhooks
_REFERENCE = re.compile(r"(ssm:[A-Za-z0-9_./-]{1,1011}|secretsmanager:[A-Za-z0-9/_+=.@-]{1,512})\Z", re.ASCII)


def is_reference(text: str) -> bool:
    """Whether a value is the name of a parameter or secret in AWS, not the secret itself."""
    return text.startswith(("ssm:", "secretsmanager:"))


def secret_bytes(secret: str) -> bytes:
    """The signing key of a secret; raises ValueError if its prefix promises base64 and the rest is not."""
    if not secret.startswith(ENCODED_SECRET):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(ENCODED_SECRET), validate=True)
    except binascii.Error as error:
        raise ValueError("must be base64 after the prefix whsec_") from error


def _secret(text: str) -> str:
    if is_reference(text):
        if not _REFERENCE.match(text):
            message = "must be a reference such as ssm:/path/to/parameter or secretsmanager:name"
            raise PydanticCustomError("bad-reference", message)
        return text
    try:
        secret_bytes(text)
    except ValueError as error:
        raise PydanticCustomError("bad-value", str(error)) from None
    return text


Secret = Annotated[str, Field(min_length=1, max_length=1024), AfterValidator(_secret)]
