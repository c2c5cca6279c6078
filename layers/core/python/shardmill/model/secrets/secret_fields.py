"""The types of fields that contain a secret, and what such a field accepts."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError, PydanticKnownError

from shardmill.model.secrets.secret import REFERENCE, is_reference, is_sealed, secret_bytes

MAX_SECRET = 1024


def _secret(text: str) -> str:
    if is_sealed(text):
        return text
    if len(text) > MAX_SECRET:
        raise PydanticKnownError("string_too_long", {"max_length": MAX_SECRET})
    if is_reference(text):
        if not REFERENCE.match(text):
            message = "must be a reference such as ssm:/path/to/parameter or secretsmanager:name"
            raise PydanticCustomError("bad-reference", message)
        return text
    try:
        secret_bytes(text)
    except ValueError as error:
        raise PydanticCustomError("bad-value", str(error)) from None
    return text


# Fits into an HTTP header, which is where a data token is used.
DataToken = Annotated[str, Field(min_length=1, max_length=4096, pattern=r"^[!-~]([ -~]*[!-~])?$")]
# In a stored document it is sealed, which makes it longer.
Secret = Annotated[
    str,
    Field(min_length=1, max_length=4096, json_schema_extra={"maxLength": MAX_SECRET}),
    AfterValidator(_secret),
]
