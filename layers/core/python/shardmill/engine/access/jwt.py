"""Verify the signature of a JWT with a key of its issuer: RS256 and ES256 only."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MAX_BYTES = 8_192
MIN_RSA_BITS = 2_048
_KEY_TYPES = {"RS256": "RSA", "ES256": "EC"}
_ES256_BYTES = 64


@dataclass(frozen=True, slots=True)
class Unverified:
    """The parts of a JWT, whose signature is not checked yet."""

    algorithm: str
    key_id: str
    claims: Mapping[str, Any]
    signed: bytes
    signature: bytes


def parse(token: str) -> Unverified | None:
    """The parts of a JWT; None if it has another form or an algorithm that is not allowed."""
    parts = token.split(".")
    if len(token) > MAX_BYTES or len(parts) != 3 or not token.isascii():
        return None
    try:
        header, claims = (json.loads(_decode(part)) for part in parts[:2])
        signature = _decode(parts[2])
    except (ValueError, binascii.Error, RecursionError):
        return None
    if not isinstance(header, dict) or not isinstance(claims, dict) or header.get("crit") is not None:
        return None
    algorithm, key_id = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in _KEY_TYPES or not isinstance(key_id, str):
        return None
    return Unverified(algorithm, key_id, claims, f"{parts[0]}.{parts[1]}".encode(), signature)


def is_signed_by(token: Unverified, key: Mapping[str, Any]) -> bool:
    """Whether a key of a JWKS made the signature; the key must be of the type that the algorithm needs."""
    if key.get("kty") != _KEY_TYPES[token.algorithm] or key.get("use", "sig") != "sig":
        return False
    if key.get("alg", token.algorithm) != token.algorithm:
        return False
    from cryptography.exceptions import InvalidSignature  # only requests with a JWT need it

    check = _check_rsa if token.algorithm == "RS256" else _check_ec
    try:
        check(token, key)
    except (InvalidSignature, ValueError, KeyError, TypeError, binascii.Error):
        return False
    return True


def _check_rsa(token: Unverified, key: Mapping[str, Any]) -> None:
    from cryptography.hazmat.primitives.asymmetric import padding, rsa
    from cryptography.hazmat.primitives.hashes import SHA256

    public = rsa.RSAPublicNumbers(_number(key["e"]), _number(key["n"])).public_key()
    if public.key_size < MIN_RSA_BITS:
        raise ValueError("the key is too short")
    public.verify(token.signature, token.signed, padding.PKCS1v15(), SHA256())


def _check_ec(token: Unverified, key: Mapping[str, Any]) -> None:
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
    from cryptography.hazmat.primitives.hashes import SHA256

    if key.get("crv") != "P-256" or len(token.signature) != _ES256_BYTES:
        raise ValueError("ES256 needs a key of P-256 and a signature of 64 bytes")
    public = ec.EllipticCurvePublicNumbers(_number(key["x"]), _number(key["y"]), ec.SECP256R1()).public_key()
    half = _ES256_BYTES // 2
    r, s = (int.from_bytes(part) for part in (token.signature[:half], token.signature[half:]))
    public.verify(encode_dss_signature(r, s), token.signed, ec.ECDSA(SHA256()))


def _number(text: str) -> int:
    return int.from_bytes(_decode(text))


def _decode(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
