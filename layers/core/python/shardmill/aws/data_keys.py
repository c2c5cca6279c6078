"""Where the data keys of sealed texts come from: a KMS key, or a key in an SSM parameter."""

from __future__ import annotations

import base64
import json
import os
from typing import Any, ClassVar, Protocol

from shardmill.aws import clients

_KEY_BYTES = 32
_NONCE_BYTES = 12


class DataKeys(Protocol):
    """Creates data keys and decrypts them again; `bound` is the context as JSON."""

    def create(self, bound: bytes) -> tuple[bytes, bytes]:
        """A new data key, in plain and encrypted form."""
        ...

    def decrypt(self, wrapped: bytes, bound: bytes) -> bytes: ...


class KmsKeys:
    """A KMS key of the account: one call for each data key, recorded by CloudTrail with its context."""

    NUMBER: ClassVar[int] = 2

    def __init__(self, key_id: str) -> None:
        self._key_id = key_id

    def create(self, bound: bytes) -> tuple[bytes, bytes]:
        answer = self._kms().generate_data_key(
            KeyId=self._key_id, KeySpec="AES_256", EncryptionContext=json.loads(bound)
        )
        return answer["Plaintext"], answer["CiphertextBlob"]

    def decrypt(self, wrapped: bytes, bound: bytes) -> bytes:
        answer = self._kms().decrypt(CiphertextBlob=wrapped, EncryptionContext=json.loads(bound))
        return bytes(answer["Plaintext"])

    def _kms(self) -> Any:
        return clients.kms()


class ParameterKeys:
    """A key in an encrypted SSM parameter, read once by each process; older versions are read as needed."""

    NUMBER: ClassVar[int] = 1

    def __init__(self, parameter: str) -> None:
        self._parameter = parameter
        self._newest = 0
        self._keys: dict[int, bytes] = {}

    def create(self, bound: bytes) -> tuple[bytes, bytes]:
        self._newest = self._newest or self._read(self._parameter)
        data_key, nonce = os.urandom(_KEY_BYTES), os.urandom(_NONCE_BYTES)
        encrypted = encryptor(self._keys[self._newest]).encrypt(nonce, data_key, bound)
        return data_key, self._newest.to_bytes(4, "big") + nonce + encrypted

    def decrypt(self, wrapped: bytes, bound: bytes) -> bytes:
        from cryptography.exceptions import InvalidTag

        version, nonce, encrypted = int.from_bytes(wrapped[:4], "big"), wrapped[4:16], wrapped[16:]
        if version > self._newest:
            self._newest = self._read(self._parameter)
        if version not in self._keys:
            self._read(f"{self._parameter}:{version}")
        try:
            return bytes(encryptor(self._keys[version]).decrypt(nonce, encrypted, bound))
        except InvalidTag as error:
            raise ValueError("wrong key or context") from error

    def _read(self, name: str) -> int:
        """Read a version of the key; return its number."""
        found = self._ssm().get_parameter(Name=name, WithDecryption=True)["Parameter"]
        self._keys[found["Version"]] = base64.b64decode(found["Value"], validate=True)
        return int(found["Version"])

    def _ssm(self) -> Any:
        return clients.ssm()


class KeyParameter:
    """Creates the parameter with the deployment, and deletes it with the data."""

    def __init__(self, name: str) -> None:
        self._name = name

    def create(self) -> None:
        """Create the key unless it exists: a key that is replaced must stay readable."""
        from botocore.exceptions import ClientError

        key = base64.b64encode(os.urandom(_KEY_BYTES)).decode()
        text = "Shardmill encrypts secrets with this key. Without it, they cannot be read."
        try:
            self._ssm().put_parameter(Name=self._name, Value=key, Type="SecureString", Description=text)
        except ClientError as error:
            if error.response["Error"]["Code"] != "ParameterAlreadyExists":
                raise

    def delete(self) -> None:
        self._ssm().delete_parameters(Names=[self._name])  # without an error if there is none

    def _ssm(self) -> Any:
        return clients.ssm()


def encryptor(key: bytes) -> Any:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # few processes need it

    return AESGCM(key)
