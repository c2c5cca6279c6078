"""Asking the places that files come from and go to, with patience; fetching a file that may break off."""

from __future__ import annotations

import hashlib
import http.client
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import BinaryIO
from urllib.parse import urlsplit

from shardmill.model.transfers import Fetch
from shardmill.worker.files.patience import Absent, Errand, Expired, Failing, Final, Signed
from shardmill.worker.files.safe_paths import PIECE_BYTES
from shardmill.worker.task import http_task as web

_TRY_AGAIN = {408, 425, 429}
_TRY_AGAIN_CODES = {"RequestTimeout", "BadDigest"}
_ABSENT = {404, 410}
_CHANGED = 412
_REASON_BYTES = 2048
_CODE = re.compile(rb"<Code>(\w{1,64})</Code>")
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)\Z")


def shown(url: str) -> str:
    """An address without what may be secret in it: its user, its query."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "its address"
    return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"


@contextmanager
def answering(
    ask: web.Ask,
    errand: Errand,
    *,
    hosts: Sequence[str] | None = None,
    body: Callable[[], Iterable[bytes]] | None = None,
) -> Iterator[http.client.HTTPResponse]:
    """The answer after redirects. Raises Failing and Final. `hosts`: the only ones that may be asked."""
    try:
        for _ in range(web.MAX_REDIRECTS + 1):
            _permit(ask.url, hosts)
            with closing(web.connection_to(ask, errand.pace.connect_seconds)) as connection:
                connection.connect()
                connection.sock.settimeout(errand.pace.read_seconds)
                with errand.holding(connection.sock), _send(connection, ask, body) as answer:
                    location = answer.getheader("Location")
                    if not location or not 300 <= answer.status < 400:
                        yield answer
                        return
            redirected = ask.redirected(answer.status, location)
            if redirected.method != ask.method:
                raise Final(f"{shown(ask.url)} answered {answer.status}: it takes no {ask.method}")
            ask = redirected
        raise Final(f"redirected more than {web.MAX_REDIRECTS} times")
    except web.Stopped as stopped:
        raise Final(str(stopped)) from None
    except TimeoutError:
        raise Failing(f"{shown(ask.url)} does not answer") from None
    except http.client.InvalidURL:  # its text has the whole address in it
        raise Final(f"{shown(ask.url)} is no address to ask") from None
    except (OSError, http.client.HTTPException) as error:
        raise Failing(f"{shown(ask.url)}: {str(error) or type(error).__name__}") from None
    except ValueError as error:
        raise Final(f"{shown(ask.url)} cannot be asked: {error}") from None


def _permit(url: str, hosts: Sequence[str] | None) -> None:
    if urlsplit(url).scheme not in web.PORTS:
        raise Final(f"{shown(url)} is not an http or https address")
    if hosts is not None and not web.allowed(url, hosts):
        raise Final(f"{shown(url)} is refused: no --allow-host of the worker names its host")


def _send(
    connection: http.client.HTTPConnection, ask: web.Ask, body: Callable[[], Iterable[bytes]] | None
) -> http.client.HTTPResponse:
    if body is None:
        return web.send(connection, ask)
    parts = urlsplit(ask.url)
    path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    with suppress(BrokenPipeError, ConnectionResetError):  # it may have said why before it hung up
        connection.request(ask.method, path, body(), dict(ask.headers))
    return connection.getresponse()


def refusal(answer: http.client.HTTPResponse, url: str, signed: Signed | None) -> Exception:
    """What an answer means that is not the one hoped for."""
    text = answer.read(_REASON_BYTES)
    found = _CODE.search(text)
    code = found[1].decode() if found else ""
    said = f"{shown(url)} answered {answer.status} {answer.reason}".rstrip() + (f" ({code})" if code else "")
    if (
        signed
        and answer.status in (400, 403)
        and (signed.old or b"expired" in text or code == "ExpiredToken")
    ):
        return Expired(said)
    if answer.status >= 500 or answer.status in _TRY_AGAIN or code in _TRY_AGAIN_CODES:
        return Failing(said)
    return Absent(said) if answer.status in _ABSENT else Final(said)


class Download:
    """One file on its way; it goes on where it broke off if the rest is sure to be of the same content."""

    def __init__(self, file: Fetch, out: BinaryIO, errand: Errand, hosts: Sequence[str]) -> None:
        self._file, self._out, self._errand = file, out, errand
        self._hosts = hosts if file.plain else None
        self._have = self._farthest = 0
        self._sha = hashlib.sha256()
        self._seen: str | None = None

    @property
    def farthest(self) -> int:
        return self._farthest

    def once(self, url: str, signed: Signed | None) -> None:
        """Fetch what is still to be had, and look whether it is right."""
        file = self._file
        if self._have and not (file.etag or self._seen or (file.sha256 and file.whole)):
            self._restart()
        if self._have != file.length or (file.whole and not self._have):
            ask = web.Ask("GET", url, self._headers(), None)
            with answering(ask, self._errand, hosts=self._hosts) as answer:
                if answer.status == _CHANGED:
                    raise self._changed()
                if answer.status not in (200, 206):
                    raise refusal(answer, url, signed)
                self._take(answer)
        self._out.flush()
        self._verify()

    def _headers(self) -> dict[str, str]:
        file, start = self._file, self._file.first + self._have
        headers = {"User-Agent": "shardmill"}
        if file.etag:
            headers["If-Match"] = _quoted(file.etag)
        elif self._have and self._seen:
            headers["If-Range"] = self._seen
        if start or file.end is not None:
            headers["Range"] = f"bytes={start}-{'' if file.end is None else file.end - 1}"
        return headers

    def _take(self, answer: http.client.HTTPResponse) -> None:
        self._same(answer)
        skip = 0
        if answer.status == 200:
            self._restart()
            skip = self._file.first
        else:
            self._expect_range(answer)
        for piece in _pieces(answer, self._errand):
            kept, skip = piece[skip:], max(0, skip - len(piece))
            length = self._file.length
            room = len(kept) if length is None else length - self._have
            if len(kept) > room and (answer.status == 206 or self._file.end is None):
                self._restart()
                raise Failing(f"there are more than the {length} bytes expected")
            self._write(kept[:room])
            if self._file.end is not None and self._have == length:
                return

    def _same(self, answer: http.client.HTTPResponse) -> None:
        """A server need not look at our conditions."""
        etag = answer.getheader("ETag") or ""
        strong = etag if etag.startswith('"') else None
        if self._file.etag and strong and strong != _quoted(self._file.etag):
            raise self._changed()
        if answer.status == 206 and self._have and self._seen and strong != self._seen:
            self._restart()
            self._seen = None
            raise Failing("it changed while it was fetched")
        self._seen = strong

    def _expect_range(self, answer: http.client.HTTPResponse) -> None:
        found = _CONTENT_RANGE.match(answer.getheader("Content-Range") or "")
        if not found or int(found[1]) != self._file.first + self._have:
            raise Failing("other bytes were sent than those asked for")
        if self._file.size is not None and found[3] not in ("*", str(self._file.size)):
            raise Failing(f"it has {found[3]} bytes, {self._file.size} were expected")

    def _write(self, piece: bytes) -> None:
        try:
            self._out.write(piece)
        except OSError as error:  # ours, not the other side's
            raise Final(f"it cannot be written here: {error.strerror}") from error
        self._sha.update(piece)
        self._have += len(piece)
        self._farthest = max(self._farthest, self._have)
        self._errand.tell(f"fetching {self._file.name}", self._have, self._file.length)

    def _verify(self) -> None:
        file, have, found = self._file, self._have, self._sha.hexdigest()
        if file.length is not None and have != file.length:
            self._restart()
            raise Failing(f"{have} bytes came, {file.length} were expected")
        if file.whole and file.sha256 and found != file.sha256:
            self._restart()
            raise Failing(f"the content is not the one expected: its SHA-256 is {found}, not {file.sha256}")

    def _restart(self) -> None:
        self._out.seek(0)
        self._out.truncate()
        self._have, self._sha = 0, hashlib.sha256()

    def _changed(self) -> Final:
        if not self._file.whole:
            return Final("it was changed after it was split; recompute the step, which splits it anew")
        return Final("it was changed after this task was prepared; a new attempt takes it as it is then")


def _pieces(answer: http.client.HTTPResponse, errand: Errand) -> Iterator[bytes]:
    """What comes, as soon as it comes; counted here, as a short answer is no fault to http.client."""
    left = answer.length
    while left is None or left > 0:
        errand.check()
        piece = answer.read1(PIECE_BYTES if left is None else min(PIECE_BYTES, left))
        if not piece:
            break
        left = None if left is None else left - len(piece)
        yield piece
    errand.check()  # an errand that ends hangs up, which looks like the end of an answer of unknown length
    if left:
        raise Failing("the connection broke off")


def _quoted(etag: str) -> str:
    return '"' + etag.strip('"') + '"'
