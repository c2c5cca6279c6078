"""HTTP to where files are kept: at signed addresses, which get no token and whose query nobody is told."""

from __future__ import annotations

import logging
import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

import httpx

from shardmill.client.errors import TransferFailed
from shardmill.client.http import CONNECT_SECONDS, FIRST_DELAY, LONGEST_DELAY, TRIES

Progress = Callable[[str, int, int], None]
"""Told what is being done, and how many bytes of how many are."""

T = TypeVar("T")
_TRY_AGAIN = {408, 425, 429}
_TRY_AGAIN_CODES = {"RequestTimeout", "SlowDown"}
_MAYBE_EXPIRED = {400, 401, 403}
_REASON_BYTES = 2_048
_CODE = re.compile(rb"<Code>(\w{1,64})</Code>")
_RANGE_START = re.compile(r"bytes (\d+)-")


class Broken(Exception):
    """This try came to nothing; the next may not."""


class Expired(Exception):
    """The address is not let in, as happens to one that is too old."""


class Store:
    def __init__(self, *, timeout: float, trust_env: bool, transport: httpx.BaseTransport | None) -> None:
        self._client = httpx.Client(
            headers={"user-agent": "shardmill", "accept-encoding": "identity"},
            timeout=httpx.Timeout(timeout, connect=min(timeout, CONNECT_SECONDS)),
            follow_redirects=True,
            trust_env=trust_env,
            transport=transport,
        )

    def close(self) -> None:
        self._client.close()

    def put(self, url: str, headers: Mapping[str, str], body: Iterable[bytes], size: int) -> None:
        """One try at storing; `body` may be read more than once. Raises Broken, Expired, TransferFailed."""
        with self._answer("PUT", url, {**headers, "content-length": str(size)}, body) as answer:
            if not answer.is_success or answer.request.method != "PUT":
                raise _refusal(answer)

    @contextmanager
    def get(self, url: str, start: int) -> Iterator[Iterator[bytes]]:
        """One try at fetching what comes from byte `start` on. Raises Broken, Expired, TransferFailed."""
        headers = {"range": f"bytes={start}-"} if start else {}
        with self._answer("GET", url, headers) as answer:
            if answer.status_code not in (200, 206):
                raise _refusal(answer)
            pieces = answer.iter_raw()  # as they come: what waits to fill a piece is lost in a break
            yield pieces if _starts_at(answer) else _after(pieces, start)

    @contextmanager
    def _answer(
        self, method: str, url: str, headers: Mapping[str, str], body: Iterable[bytes] | None = None
    ) -> Iterator[httpx.Response]:
        try:
            with self._client.stream(method, url, headers=headers, content=body) as answer:
                yield answer
        except httpx.TimeoutException:
            raise Broken(f"{shown(url)} does not answer") from None
        except (httpx.UnsupportedProtocol, httpx.InvalidURL, httpx.TooManyRedirects):
            raise TransferFailed(f"{shown(url)} is no address to ask") from None
        except httpx.RequestError as error:
            raise Broken(f"{shown(url)}: {str(error) or type(error).__name__}") from None


def insist(what: str, once: Callable[[], T], moved: Callable[[], int]) -> T:
    """Try until it works, or until it broke too often in a row with nothing `moved` by it."""
    in_vain = farthest = 0
    while True:
        try:
            return once()
        except Broken as error:
            in_vain += 1
            if moved() > farthest:
                farthest, in_vain = moved(), 1
            if in_vain >= TRIES:
                raise TransferFailed(f"{what}: {error} (tried {TRIES} times in vain)") from None
        except TransferFailed as error:
            raise TransferFailed(f"{what}: {error.detail}") from None
        time.sleep(min(FIRST_DELAY * 2**in_vain, LONGEST_DELAY) * random.uniform(0.5, 1.0))


def shown(url: str) -> str:
    """An address without what may be secret in it: its user, its query."""
    try:
        parts = httpx.URL(url)
    except httpx.InvalidURL:
        return "what should be its address"
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.host}{port}{parts.path}"


def _starts_at(answer: httpx.Response) -> bool:
    """Whether the answer begins where it was asked to; one that begins at 0 need not heed a range."""
    if answer.status_code == 200:
        return "range" not in answer.request.headers
    found = _RANGE_START.match(answer.headers.get("content-range", ""))
    if not found or answer.request.headers.get("range") != f"bytes={found[1]}-":
        raise Broken(f"{shown(str(answer.request.url))} gave another range than it was asked for")
    return True


def _after(pieces: Iterator[bytes], start: int) -> Iterator[bytes]:
    for piece in pieces:
        if len(piece) > start:
            yield piece[start:]
        start = max(0, start - len(piece))


def _refusal(answer: httpx.Response) -> Exception:
    """What an answer means that is not the one hoped for."""
    text = b""
    for piece in answer.iter_raw():
        text += piece
        if len(text) >= _REASON_BYTES:
            break
    found = _CODE.search(text)
    code = found[1].decode() if found else ""
    url = shown(str(answer.request.url))
    said = f"{url} answered {answer.status_code} {answer.reason_phrase}".rstrip() + (
        f" ({code})" if code else ""
    )
    if answer.status_code >= 500 or answer.status_code in _TRY_AGAIN or code in _TRY_AGAIN_CODES:
        return Broken(said)
    return Expired(said) if answer.status_code in _MAYBE_EXPIRED else TransferFailed(said)


class _Unsigned(logging.Filter):
    """httpx logs every address it asks; a signed one is as good as a password."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(
                shown(str(each)) if isinstance(each, httpx.URL) and b"Signature=" in each.query else each
                for each in record.args
            )
        return True


logging.getLogger("httpx").addFilter(_Unsigned())
