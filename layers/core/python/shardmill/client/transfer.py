"""HTTP exchanges with the object store at presigned URLs, which must not get the token of the API."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

import httpx

from shardmill.client.errors import TransferFailed
from shardmill.client.http import BACKOFF, CONNECT_SECONDS
from shardmill.transfer.backoff import retry
from shardmill.transfer.exchange import PermanentError, Reply, RetryableError, redact

T = TypeVar("T")


class ObjectStore:
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

    @contextmanager
    def exchange(
        self, method: str, url: str, headers: Mapping[str, str], body: Iterable[bytes] | None = None
    ) -> Iterator[Reply]:
        """Send a request and follow redirects. Raises RetryableError and PermanentError."""
        try:
            with self._client.stream(method, url, headers=headers, content=body) as response:
                if response.request.method != method:
                    status = response.history[0].status_code
                    raise PermanentError(f"{redact(url)} returned {status}: it does not accept {method}")
                # Unbuffered: an interruption loses nothing that has arrived.
                pieces = response.iter_raw()
                yield Reply(response.status_code, response.reason_phrase, response.headers, pieces)
        except httpx.TimeoutException:
            raise RetryableError(f"{redact(url)} did not respond in time") from None
        except (httpx.UnsupportedProtocol, httpx.InvalidURL, httpx.TooManyRedirects):
            raise PermanentError(f"cannot send a request to {redact(url)}") from None
        except httpx.RequestError as error:
            raise RetryableError(f"{redact(url)}: {str(error) or type(error).__name__}") from None


def retry_transfer(failure: str, call: Callable[[], T], progress: Callable[[], int] | None = None) -> T:
    """Retry a transfer. Raises TransferFailed, whose message begins with `failure`."""
    try:
        return retry(call, BACKOFF, on=RetryableError, progress=progress)
    except RetryableError as error:
        raise TransferFailed(f"{failure}: {error} (tried {BACKOFF.attempts} times)") from None
    except PermanentError as error:
        raise TransferFailed(f"{failure}: {error}") from None


class _RedactUrls(logging.Filter):
    """Removes the query of presigned URLs, which grants access, from the log records of httpx."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(
                redact(str(each)) if isinstance(each, httpx.URL) and b"Signature=" in each.query else each
                for each in record.args
            )
        return True


logging.getLogger("httpx").addFilter(_RedactUrls())
