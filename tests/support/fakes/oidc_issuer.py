"""An OIDC issuer on loopback with keys of its own: discovery, keys, and a sign-in page that asks nothing."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

AUDIENCE = "shardmill"


def encode(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def number(value: int) -> str:
    return encode(value.to_bytes((value.bit_length() + 7) // 8))


@dataclass
class OidcIssuer:
    url: str = ""
    user: dict[str, Any] = field(default_factory=lambda: {"sub": "alice", "scope": "openid shardmill:read"})
    requests: list[str] = field(default_factory=list)
    rsa_key: rsa.RSAPrivateKey = field(default_factory=lambda: rsa.generate_private_key(65537, 2048))
    ec_key: ec.EllipticCurvePrivateKey = field(
        default_factory=lambda: ec.generate_private_key(ec.SECP256R1())
    )
    _codes: dict[str, dict[str, str]] = field(default_factory=dict)

    def keys(self) -> list[dict[str, str]]:
        rsa_public, ec_public = (
            self.rsa_key.public_key().public_numbers(),
            self.ec_key.public_key().public_numbers(),
        )
        return [
            {"kid": "r1", "kty": "RSA", "use": "sig", "n": number(rsa_public.n), "e": number(rsa_public.e)},
            {"kid": "e1", "kty": "EC", "crv": "P-256", "x": number(ec_public.x), "y": number(ec_public.y)},
        ]

    def claims(self, **changes: Any) -> dict[str, Any]:
        now = int(time.time())
        given = {"iss": self.url, "aud": AUDIENCE, "iat": now, "exp": now + 600, **self.user, **changes}
        return {name: value for name, value in given.items() if value is not None}

    def token(self, alg: str = "RS256", header: dict[str, Any] | None = None, **changes: Any) -> str:
        """A JWT; `changes` to its claims, None leaves one out."""
        head = {"alg": alg, "kid": "r1" if alg == "RS256" else "e1", "typ": "JWT", **(header or {})}
        return self.sign(alg, head, self.claims(**changes))

    def sign(self, alg: str, header: dict[str, Any], claims: dict[str, Any]) -> str:
        signed = ".".join(encode(json.dumps(part).encode()) for part in (header, claims))
        if alg == "RS256":
            signature = self.rsa_key.sign(signed.encode(), padding.PKCS1v15(), SHA256())
        else:
            r, s = decode_dss_signature(self.ec_key.sign(signed.encode(), ec.ECDSA(SHA256())))
            signature = r.to_bytes(32) + s.to_bytes(32)
        return f"{signed}.{encode(signature)}"

    def answer(
        self, path: str, query: dict[str, str], body: dict[str, str]
    ) -> tuple[int, dict[str, str], Any]:
        self.requests.append(path)
        if path == "/.well-known/openid-configuration":
            endpoints = {
                "authorization_endpoint": "/authorize",
                "token_endpoint": "/token",
                "jwks_uri": "/keys",
            }
            return 200, {}, {"issuer": self.url, **{name: self.url + at for name, at in endpoints.items()}}
        if path == "/keys":
            return 200, {}, {"keys": self.keys()}
        if path == "/authorize":
            code = secrets.token_urlsafe(16)
            self._codes[code] = query
            back = urlencode({"code": code, "state": query["state"]})
            return 302, {"location": f"{query['redirect_uri']}?{back}"}, None
        if path == "/token":
            return self._exchange(body)
        return 404, {}, None

    def _exchange(self, body: dict[str, str]) -> tuple[int, dict[str, str], Any]:
        asked = self._codes.pop(body.get("code", ""), {})
        challenge = encode(hashlib.sha256(body.get("code_verifier", "").encode()).digest())
        same = all(asked.get(name) == body.get(name) for name in ("client_id", "redirect_uri"))
        if not asked or not same or asked.get("code_challenge") != challenge:
            return 400, {}, {"error": "invalid_grant"}
        return 200, {}, {"access_token": self.token(), "token_type": "Bearer", "expires_in": 600}


@contextmanager
def oidc_issuer() -> Iterator[OidcIssuer]:
    issuer = OidcIssuer()

    class Handler(BaseHTTPRequestHandler):
        def respond(self) -> None:
            parts = urlsplit(self.path)
            content = self.rfile.read(int(self.headers.get("content-length") or 0)).decode()
            query, body = (
                {name: each[0] for name, each in parse_qs(text).items()} for text in (parts.query, content)
            )
            status, headers, document = issuer.answer(parts.path, query, body)
            self.send_response(status)
            for name, value in {"access-control-allow-origin": "*", **headers}.items():
                self.send_header(name, value)
            sent = b"" if document is None else json.dumps(document).encode()
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        do_GET = do_POST = respond

        def log_message(self, *args: object) -> None:
            """Keep the output of tests clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    issuer.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
