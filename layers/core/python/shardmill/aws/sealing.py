"""Envelope encryption of secrets before they are stored.

A sealed text is `sealed:1:` and the base64 of: the source of its data key, the encrypted data key, and the
text encrypted with AES-256-GCM. The context, such as the name of a definition, is authenticated with both:
a sealed text that was copied to another place cannot be opened there.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from shardmill.aws.data_keys import DataKeys, KmsKeys, ParameterKeys, encryptor
from shardmill.aws.secrets import SecretUnavailable, reason_of
from shardmill.aws.settings import Settings
from shardmill.model.secrets.secret import SEALED

Context = Mapping[str, str]
_HEADER = struct.Struct(">BH")  # the source of the data key, and the length of the encrypted data key
_NONCE_BYTES = 12
_KEPT_KEYS = 1_000


class Sealer:
    """Seals texts with new data keys, and opens them; data keys that it has decrypted are kept in memory."""

    def __init__(self, settings: Settings) -> None:
        self._sources: dict[int, DataKeys] = {
            ParameterKeys.NUMBER: ParameterKeys(settings.key_parameter),
            KmsKeys.NUMBER: KmsKeys(settings.secrets_key),
        }
        self._newest = KmsKeys.NUMBER if settings.secrets_key else ParameterKeys.NUMBER
        self._data_key = lru_cache(_KEPT_KEYS)(self._decrypt_key)

    def seal(self, texts: Sequence[str], context: Context) -> list[str]:
        """Seal texts with one data key. Raises SecretUnavailable if there is no key."""
        bound = _encoded(context)
        try:
            data_key, wrapped = self._sources[self._newest].create(bound)
        except (ClientError, BotoCoreError) as error:
            raise SecretUnavailable(f"no key to encrypt secrets with: {reason_of(error)}") from error
        cipher, header = encryptor(data_key), _HEADER.pack(self._newest, len(wrapped)) + wrapped
        sealed = []
        for text in texts:
            nonce = os.urandom(_NONCE_BYTES)
            packed = header + nonce + cipher.encrypt(nonce, text.encode(), bound)
            sealed.append(SEALED + base64.b64encode(packed).decode())
        return sealed

    def open(self, text: str, context: Context) -> str:
        """Open a sealed text; any other text is returned as it is. Raises SecretUnavailable."""
        if not text.startswith(SEALED):
            return text
        bound = _encoded(context)
        try:
            packed = base64.b64decode(text.removeprefix(SEALED), validate=True)
            source, length = _HEADER.unpack_from(packed)
            wrapped, rest = packed[_HEADER.size :][:length], packed[_HEADER.size + length :]
            cipher = encryptor(self._data_key(source, wrapped, bound))
            return _decrypted(cipher, rest[:_NONCE_BYTES], rest[_NONCE_BYTES:], bound).decode()
        except (ClientError, BotoCoreError) as error:
            raise SecretUnavailable(f"a secret cannot be decrypted: {reason_of(error)}") from error
        except (struct.error, binascii.Error, KeyError, ValueError) as error:
            raise SecretUnavailable(
                "a secret cannot be decrypted: it is damaged, or was stored for another definition or job"
            ) from error

    def _decrypt_key(self, source: int, wrapped: bytes, bound: bytes) -> bytes:
        return self._sources[source].decrypt(wrapped, bound)


def _encoded(context: Context) -> bytes:
    return json.dumps(dict(context), sort_keys=True).encode()


def _decrypted(cipher: Any, nonce: bytes, data: bytes, bound: bytes) -> bytes:
    from cryptography.exceptions import InvalidTag

    try:
        return bytes(cipher.decrypt(nonce, data, bound))
    except InvalidTag as error:
        raise ValueError("wrong key or context") from error
