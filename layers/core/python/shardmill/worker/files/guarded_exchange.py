"""HTTP exchanges of a worker with object stores: with an allow list, and interrupted with the task."""

from __future__ import annotations

import http.client
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from shardmill.transfer.exchange import PermanentError, Reply, RetryableError, redact
from shardmill.transfer.upload import PIECE_BYTES
from shardmill.worker import guarded_http
from shardmill.worker.files.transfer_context import TransferContext
from shardmill.worker.guarded_http import Request


@dataclass(frozen=True, slots=True)
class GuardedExchange:
    """`hosts`: the only hosts that requests may go to; None allows all but link-local addresses."""

    context: TransferContext
    hosts: Sequence[str] | None = None

    @contextmanager
    def __call__(
        self, method: str, url: str, headers: Mapping[str, str], body: Iterable[bytes] | None = None
    ) -> Iterator[Reply]:
        """Send a request and follow redirects. Raises RetryableError and PermanentError."""
        request = Request(method, url, {"User-Agent": "shardmill", **headers}, None)
        try:
            for _ in range(guarded_http.MAX_REDIRECTS + 1):
                self._check_allowed(request.url)
                with self._send(request, body) as response:
                    location = response.getheader("Location")
                    if not location or not 300 <= response.status < 400:
                        pieces = _pieces(response, self.context)
                        yield Reply(response.status, response.reason, response.headers, pieces)
                        return
                request = _redirected(request, response.status, location)
            raise PermanentError(f"redirected more than {guarded_http.MAX_REDIRECTS} times")
        except guarded_http.RequestFailed as error:
            raise PermanentError(str(error)) from None
        except TimeoutError:
            raise RetryableError(f"{redact(request.url)} did not respond in time") from None
        except http.client.InvalidURL:  # its message contains the whole URL
            raise PermanentError(f"{redact(request.url)} is not a valid URL") from None
        except (OSError, http.client.HTTPException) as error:
            raise RetryableError(f"{redact(request.url)}: {str(error) or type(error).__name__}") from None
        except ValueError as error:
            raise PermanentError(f"cannot send a request to {redact(request.url)}: {error}") from None

    def _check_allowed(self, url: str) -> None:
        if urlsplit(url).scheme not in guarded_http.PORTS:
            raise PermanentError(f"{redact(url)} is not an http or https URL")
        if self.hosts is not None and not guarded_http.allowed(url, self.hosts):
            raise PermanentError(
                f"{redact(url)} is not allowed: its host matches no --allow-host of the worker"
            )

    @contextmanager
    def _send(self, request: Request, body: Iterable[bytes] | None) -> Iterator[http.client.HTTPResponse]:
        settings = self.context.settings
        with closing(guarded_http.connection_to(request, settings.connect_seconds)) as connection:
            connection.connect()
            connection.sock.settimeout(settings.read_seconds)
            with self.context.interrupting(connection.sock), _response(connection, request, body) as response:
                yield response


def _response(
    connection: http.client.HTTPConnection, request: Request, body: Iterable[bytes] | None
) -> http.client.HTTPResponse:
    if body is None:
        return guarded_http.send(connection, request)
    parts = urlsplit(request.url)
    path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    with suppress(BrokenPipeError, ConnectionResetError):  # the server may respond before it has read all
        connection.request(request.method, path, body, dict(request.headers))
    return connection.getresponse()


def _redirected(request: Request, status: int, location: str) -> Request:
    redirected = request.redirected(status, location)
    if redirected.method != request.method:
        raise PermanentError(f"{redact(request.url)} returned {status}: it does not accept {request.method}")
    return redirected


def _pieces(response: http.client.HTTPResponse, context: TransferContext) -> Iterator[bytes]:
    """The body as it arrives; http.client does not report a body that is shorter than announced."""
    left = response.length
    while left is None or left > 0:
        context.check()
        piece = response.read1(PIECE_BYTES if left is None else min(PIECE_BYTES, left))
        if not piece:
            break
        left = None if left is None else left - len(piece)
        yield piece
    context.check()  # an interrupted connection looks like the end of a body of unknown length
    if left:
        raise RetryableError("the connection was closed before the end of the body")
