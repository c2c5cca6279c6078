"""Downloads and uploads of tasks, with a local server that fails in many ways."""

import base64
import errno
import hashlib
import io
import os
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from threading import Event
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shardmill.model import transfers
from shardmill.model.files import File
from shardmill.model.transfers import Fetch, Prepared, StoreAnswer, Stored, StoreRequest, part_ranges
from shardmill.model.worker import Lease
from shardmill.transfer.backoff import Backoff
from shardmill.transfer.download import Download
from shardmill.transfer.exchange import PermanentError
from shardmill.worker.files.cache import Cache
from shardmill.worker.files.guarded_exchange import GuardedExchange
from shardmill.worker.files.safe_paths import TransferError
from shardmill.worker.files.transfer import download_all, upload_all
from shardmill.worker.files.transfer_context import TransferContext, TransferInterrupted, TransferSettings
from shardmill.worker.outcome import DISCARDED, TIMED_OUT
from shardmill.worker.transport.base import FileUrls, Refused, Unreachable
from support.fakes.leases import a_lease

SECRET = "X-Amz-Signature=s3cret"
SETTINGS = TransferSettings(Backoff(3, 0.001, 0.002), connect_seconds=5, read_seconds=5)
PART = 1000


@dataclass
class Fault:
    """Deviations from the normal response to one request."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    break_after: int | None = None
    wrong: bytes | None = None
    etag: str | None = None
    stall: bool = False
    ignores_if_range: bool = False


@dataclass
class Store:
    """Objects by path, and the faults of the next requests, one per request."""

    objects: dict[str, bytes] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    ranges: bool = True
    etags: bool = True
    chunked: bool = False
    encrypted: bool = False
    port: int = 0
    woken: Event = field(default_factory=Event)

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}?{SECRET}"

    def headers(self, number: int) -> dict[str, str]:
        return self.requests[number][2]


def etag_of(data: bytes) -> str:
    return hashlib.md5(data).hexdigest()


class Handler(BaseHTTPRequestHandler):
    store: Store

    def do_GET(self) -> None:
        if fault := self._fault():
            data = self.store.objects.get(self._path) if fault.wrong is None else fault.wrong
            if data is None:
                self._respond(404, {}, b"<Code>NoSuchKey</Code>")
            else:
                self._send_object(data, f'"{fault.etag or etag_of(data)}"', fault)

    def _send_object(self, data: bytes, etag: str, fault: Fault) -> None:
        headers = {"ETag": etag} if self.store.etags else {}
        byte_range = self.headers.get("Range") if self.store.ranges else None
        if self.headers.get("If-Match", etag) != etag and not fault.wrong:
            self._respond(412, {}, b"")
        elif byte_range and (fault.ignores_if_range or self.headers.get("If-Range", etag) == etag):
            low, _, high = byte_range.removeprefix("bytes=").partition("-")
            first, end = int(low), min(int(high or len(data)) + 1, len(data))
            headers["Content-Range"] = f"bytes {first}-{end - 1}/{len(data)}"
            self._respond(206 if first < end else 416, headers, data[first:end], fault.break_after)
        else:
            self._respond(200, headers, data, fault.break_after)

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        if fault := self._fault():
            if self.headers["Content-MD5"] != base64.b64encode(hashlib.md5(data).digest()).decode():
                self._respond(400, {}, b"<Error><Code>BadDigest</Code></Error>")
                return
            self.store.objects[self._path] = data
            headers = {"ETag": f'"{fault.etag or etag_of(data)}"'}
            if self.store.encrypted:
                headers = {"ETag": '"opaque"', "x-amz-server-side-encryption": "aws:kms"}
            self._respond(200, headers, b"")

    @property
    def _path(self) -> str:
        return self.path.partition("?")[0]

    def _fault(self) -> Fault | None:
        """Return the fault of this request, or None if it has sent the response already."""
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.store.requests.append((self.command, self.path, headers))
        fault = self.store.faults.pop(0) if self.store.faults else Fault()
        if fault.stall:
            self.store.woken.wait(30)
        if fault.status:
            self._respond(fault.status, fault.headers, fault.body)
            return None
        return fault

    def _respond(self, status: int, headers: dict[str, str], body: bytes, most: int | None = None) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if self.store.chunked:
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            end = b"" if most is not None else b"\r\n0\r\n\r\n"
            self.wfile.write(b"%x\r\n%s%s" % (len(body), body[:most], end))
            return
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:most])

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing, to keep the output of tests clean."""


@contextmanager
def serving() -> Iterator[Store]:
    store = Store()
    http_server = ThreadingHTTPServer(("127.0.0.1", 0), type("StoreHandler", (Handler,), {"store": store}))
    http_server.daemon_threads = True
    http_server.handle_error = lambda *_: None  # type: ignore[method-assign,assignment]  # clients may disconnect
    store.port = http_server.server_port
    threading.Thread(target=http_server.serve_forever, args=(0.02,), daemon=True).start()
    yield store
    store.woken.set()
    http_server.shutdown()
    http_server.server_close()


@pytest.fixture(scope="module")
def server() -> Iterator[Store]:
    with serving() as store:
        yield store


@pytest.fixture
def store(server: Store) -> Store:
    fresh = Store()
    for name in ("objects", "faults", "requests", "ranges", "etags", "chunked", "encrypted", "woken"):
        setattr(server, name, getattr(fresh, name))
    return server


def a_file(store: Store, data: bytes, name: str = "big.txt", **more: Any) -> Fetch:
    store.objects["/b/key"] = data
    return Fetch(name=name, url=store.url("/b/key"), **{"size": len(data), **more})


def download(files: Fetch | Sequence[Fetch], folder: Path, **more: Any) -> list[Path]:
    options: dict[str, Any] = {
        "cache": None,
        "allow_hosts": (),
        "stop": Event(),
        "progress": lambda _: None,
        "settings": SETTINGS,
    }
    return download_all([files] if isinstance(files, Fetch) else files, folder, **(options | more))


def download_error(files: Fetch | Sequence[Fetch], folder: Path, **more: Any) -> str:
    with pytest.raises(TransferError) as raised:
        download(files, folder, **more)
    assert "s3cret" not in str(raised.value)
    left = [path for path in folder.rglob("*") if path.is_file()]
    assert left == []
    return str(raised.value)


# Downloads


def test_a_file_is_downloaded_into_its_folder_and_its_owner_is_set(store: Store, tmp_path: Path) -> None:
    owned: list[Path] = []
    [path] = download(a_file(store, b"hello", "in/deep/x.txt"), tmp_path, set_owner=owned.append)
    assert path.read_bytes() == b"hello"
    assert owned == [tmp_path / "in", tmp_path / "in/deep", path]
    assert [each.name for each in path.parent.iterdir()] == ["x.txt"]


DATA = os.urandom(5000)
BREAKS = st.lists(st.integers(1, 2000), max_size=8)


@settings(max_examples=60)
@given(breaks=BREAKS, etag=st.booleans(), sha=st.booleans(), etags=st.booleans(), ranges=st.booleans())
@example(breaks=[1000, 1000, 1, 1999], etag=False, sha=False, etags=True, ranges=True)
def test_interrupted_downloads_are_exact(
    server: Store, breaks: list[int], etag: bool, sha: bool, etags: bool, ranges: bool
) -> None:
    server.faults, server.requests = [Fault(break_after=each) for each in breaks], []
    server.etags, server.ranges, server.chunked = etags, ranges, False
    file = a_file(
        server,
        DATA,
        etag=etag_of(DATA) if etag else None,
        sha256=hashlib.sha256(DATA).hexdigest() if sha else None,
    )
    with_more_attempts = TransferSettings(Backoff(len(breaks) + 1, 0, 0))
    with tempfile.TemporaryDirectory() as folder:
        [path] = download(file, Path(folder), settings=with_more_attempts)
        assert path.read_bytes() == DATA
    if ranges and (etag or etags or sha):
        starts = [
            int(headers.get("range", "bytes=0-")[6:].partition("-")[0]) for *_, headers in server.requests
        ]
        assert starts == [sum(breaks[:number]) for number in range(len(starts))]


def test_an_attempt_with_progress_does_not_count_as_failed(store: Store, tmp_path: Path) -> None:
    store.faults = [Fault(break_after=10) for _ in range(20)]
    [path] = download(a_file(store, DATA, etag=etag_of(DATA)), tmp_path)
    assert path.read_bytes() == DATA
    assert len(store.requests) == 21


@settings(max_examples=40)
@given(span=st.tuples(st.integers(0, 5000), st.integers(0, 5000)), breaks=BREAKS, ranges=st.booleans())
def test_a_byte_range_of_an_object_is_exact(
    server: Store, span: tuple[int, int], breaks: list[int], ranges: bool
) -> None:
    first, end = sorted(span)
    server.faults, server.ranges, server.etags, server.chunked = (
        [Fault(break_after=each) for each in breaks],
        ranges,
        True,
        False,
    )
    file = a_file(server, DATA, first=first, end=end, sha256=hashlib.sha256(DATA).hexdigest())
    with tempfile.TemporaryDirectory() as folder:
        [path] = download(file, Path(folder), settings=TransferSettings(Backoff(len(breaks) + 1, 0, 0)))
        assert path.read_bytes() == DATA[first:end]


def test_temporary_failures_of_the_server_are_retried(store: Store, tmp_path: Path) -> None:
    store.faults = [Fault(503), Fault(429)]
    [path] = download(a_file(store, b"x"), tmp_path)
    assert path.read_bytes() == b"x"


def test_a_permanent_failure_of_the_server_has_a_clear_message(store: Store, tmp_path: Path) -> None:
    store.faults = [Fault(503, body=b"<Code>SlowDown</Code>")] * 3
    error = download_error(a_file(store, b"x"), tmp_path)
    assert error == (
        f"cannot download input 'big.txt': http://127.0.0.1:{store.port}/b/key returned "
        "503 Service Unavailable (SlowDown) (tried 3 times)"
    )


def test_an_unreachable_server_has_a_clear_message(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    error = download_error(Fetch(name="x", url=f"http://127.0.0.1:{port}/k?{SECRET}"), tmp_path)
    assert "refused" in error
    assert "tried 3 times" in error


def test_wrong_content_is_downloaded_again(store: Store, tmp_path: Path) -> None:
    store.faults = [Fault(wrong=b"hellO")]
    [path] = download(a_file(store, b"hello", sha256=hashlib.sha256(b"hello").hexdigest()), tmp_path)
    assert path.read_bytes() == b"hello"


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (b"hellO", "checksum mismatch: the SHA-256 is "),
        (b"hell", "received 4 of 5 bytes"),
        (b"hello!", "received more than the expected 5 bytes"),
    ],
)
def test_wrong_content_is_detected(store: Store, tmp_path: Path, wrong: bytes, error: str) -> None:
    store.faults = [Fault(wrong=wrong)] * 3
    assert error in download_error(
        a_file(store, b"hello", sha256=hashlib.sha256(b"hello").hexdigest()), tmp_path
    )


def test_a_changed_object_is_not_retried(store: Store, tmp_path: Path) -> None:
    assert "the object changed after this task was prepared" in download_error(
        a_file(store, b"new", etag=etag_of(b"old")), tmp_path
    )
    assert len(store.requests) == 1


def test_a_changed_object_is_detected_by_its_etag_if_the_server_ignores_if_match(
    store: Store, tmp_path: Path
) -> None:
    store.faults = [Fault(wrong=b"new", etag="another")]
    assert "the object changed after" in download_error(a_file(store, b"old", etag=etag_of(b"old")), tmp_path)


@pytest.mark.parametrize("etags", [True, False])
@pytest.mark.parametrize("ignores_if_range", [True, False])
def test_content_of_two_versions_is_never_mixed(
    store: Store, tmp_path: Path, etags: bool, ignores_if_range: bool
) -> None:
    file = a_file(store, b"b" * 100, size=None)
    store.etags = etags
    store.faults = [Fault(break_after=50, wrong=b"a" * 100), Fault(ignores_if_range=ignores_if_range)]
    [path] = download(file, tmp_path)
    assert path.read_bytes() == b"b" * 100
    assert ("if-range" in store.headers(1)) == etags


def test_a_different_byte_range_than_requested_is_discarded(store: Store, tmp_path: Path) -> None:
    headers = {"Content-Range": "bytes 0-4/5", "Content-Length": "5", "ETag": f'"{etag_of(b"hello")}"'}
    store.faults = [Fault(break_after=2), Fault(206, headers, b"hello")]
    [path] = download(a_file(store, b"hello", size=None), tmp_path)
    assert path.read_bytes() == b"hello"
    assert len(store.requests) == 3


def test_a_response_of_unknown_length_is_downloaded(store: Store, tmp_path: Path) -> None:
    store.chunked = True
    store.faults = [Fault(break_after=100), Fault(break_after=1000)]
    [path] = download(a_file(store, DATA, size=None), tmp_path)
    assert path.read_bytes() == DATA
    assert "range" in store.headers(1)


@pytest.mark.parametrize("plain", [True, False])
def test_an_optional_file_may_be_missing(store: Store, tmp_path: Path, plain: bool) -> None:
    file = Fetch(name="x", url=store.url("/none"), optional=True, plain=plain)
    missing = Fetch(name="y", optional=True, missing=True)
    assert download([file, missing], tmp_path, allow_hosts=["127.0.0.1"]) == []
    assert list(tmp_path.iterdir()) == []


def test_a_required_file_must_exist(store: Store, tmp_path: Path) -> None:
    assert download_error(Fetch(name="x", url=store.url("/none")), tmp_path).startswith(
        "input 'x' is missing: http:"
    )
    assert download_error(Fetch(name="x", missing=True), tmp_path).startswith(
        "input 'x' is missing: the step"
    )


def test_urls_of_definitions_need_an_allowed_host(store: Store, tmp_path: Path) -> None:
    file = a_file(store, b"x", plain=True)
    assert "its host matches no --allow-host of the worker" in download_error(file, tmp_path)
    assert store.requests == []
    assert download(file, tmp_path, allow_hosts=[f"127.0.0.1:{store.port}"]) == [tmp_path / "big.txt"]


def test_a_redirect_needs_an_allowed_host(store: Store, tmp_path: Path) -> None:
    there = f"http://localhost:{store.port}/b/key?{SECRET}"
    file = a_file(store, b"x", plain=True)
    store.faults = [Fault(302, {"Location": there})]
    assert "http://localhost" in download_error(file, tmp_path, allow_hosts=["127.0.0.1"])
    store.faults = [Fault(302, {"Location": there})]
    [path] = download(file, tmp_path, allow_hosts=["127.0.0.1", "localhost"])
    assert path.read_bytes() == b"x"


@pytest.mark.parametrize("plain", [True, False])
def test_nothing_is_downloaded_from_link_local_addresses(
    store: Store, tmp_path: Path, plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, guarded = a_file(store, b"x", plain=plain), socket.getaddrinfo
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("169.254.169.254", 80))]

    def lookup(host: str, *args: Any, **more: Any) -> Any:
        return found if host == "metadata.test" else guarded(host, *args, **more)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    store.faults = [Fault(302, {"Location": "http://metadata.test/latest/meta-data?" + SECRET})]
    error = download_error(file, tmp_path, allow_hosts=["127.0.0.1", "metadata.test"])
    assert "link-local" in error
    assert len(store.requests) == 1


@pytest.mark.parametrize(
    "url",
    ["ftp://127.0.0.1/x?s3cret", "http://127.0.0.1:x/?s3cret", "file:///etc/passwd", "http://[::1?s3cret"],
)
def test_invalid_urls_are_rejected(tmp_path: Path, url: str) -> None:
    assert "cannot download input" in download_error(Fetch(name="x", url=url), tmp_path)


def test_endless_redirects_fail(store: Store, tmp_path: Path) -> None:
    file = a_file(store, b"x")
    store.faults = [Fault(302, {"Location": file.url})] * 20
    assert "redirected more than 10 times" in download_error(file, tmp_path)


@pytest.mark.parametrize(("seconds", "fetched"), [(601, True), (599, False)])
def test_old_urls_that_are_refused_are_renewed(
    store: Store, tmp_path: Path, seconds: int, fetched: bool
) -> None:
    file = a_file(store, b"hello")
    old = file.model_copy(update={"url": store.url("/expired")})
    renewed: list[Fetch] = []

    def renew() -> list[Fetch]:
        renewed.append(file)
        return [file]

    store.faults = [Fault(403)]
    clock = TransferSettings(Backoff(3, 0, 0), now=lambda: seconds * min(1, len(store.requests)))
    if fetched:
        assert download(old, tmp_path, renew=renew, settings=clock)[0].read_bytes() == b"hello"
    else:
        assert "403 Forbidden" in download_error(old, tmp_path, renew=renew, settings=clock)
    assert len(renewed) == fetched


def test_urls_of_definitions_are_not_renewed(store: Store, tmp_path: Path) -> None:
    def renew() -> list[Fetch]:
        raise AssertionError("it was never signed")

    file, clock = (
        a_file(store, b"x", plain=True),
        TransferSettings(now=lambda: 601 * min(1, len(store.requests))),
    )
    store.faults = [Fault(403)]
    assert "403 Forbidden" in download_error(
        file, tmp_path, renew=renew, settings=clock, allow_hosts=["127.0.0.1"]
    )


def test_a_url_whose_response_says_expired_is_renewed_at_any_age(store: Store, tmp_path: Path) -> None:
    file = a_file(store, b"hello")
    store.faults = [Fault(400, body=b"<Code>ExpiredToken</Code>"), Fault(403, body=b"Request has expired")]
    [path] = download(file, tmp_path, renew=lambda: [file])
    assert path.read_bytes() == b"hello"


def test_a_new_url_that_is_refused_is_not_retried(store: Store, tmp_path: Path) -> None:
    store.faults = [Fault(403, body=b"<Code>AccessDenied</Code>")]
    assert "403 Forbidden (AccessDenied)" in download_error(a_file(store, b"x"), tmp_path, renew=list)
    assert len(store.requests) == 1


def test_a_refused_renewal_is_reported(store: Store, tmp_path: Path) -> None:
    def renew() -> list[Fetch]:
        raise Refused("the attempt is over", "stale-attempt")

    store.faults = [Fault(403, body=b"Request has expired")]
    assert download_error(a_file(store, b"x"), tmp_path, renew=renew).endswith("the attempt is over")


def test_a_stalled_download_stops_with_its_task(store: Store, tmp_path: Path) -> None:
    stop = Event()
    file = a_file(store, b"x")
    store.faults = [Fault(stall=True)]

    def once_asked() -> None:
        while not store.requests:
            stop.wait(0.01)
        stop.set()

    threading.Thread(target=once_asked).start()
    with pytest.raises(TransferInterrupted, match=f"^{DISCARDED}$"):
        download(file, tmp_path, stop=stop, settings=TransferSettings(read_seconds=100))
    assert not store.woken.is_set()
    assert list(tmp_path.iterdir()) == []


def test_a_delay_ends_with_its_task(store: Store, tmp_path: Path) -> None:
    stop = Event()
    store.faults = [Fault(503)]
    slow = TransferSettings(Backoff(5, 100, 100, random=lambda: stop.set() or 1.0))  # type: ignore[func-returns-value]
    with pytest.raises(TransferInterrupted, match=DISCARDED):
        download(a_file(store, b"x"), tmp_path, stop=stop, settings=slow)


def test_a_download_stops_at_the_deadline(store: Store, tmp_path: Path) -> None:
    with pytest.raises(TransferInterrupted, match=TIMED_OUT):
        download(a_file(store, b"x"), tmp_path, settings=TransferSettings(deadline=5, now=lambda: 5))
    assert store.requests == []


def test_progress_is_reported_at_most_once_a_second(store: Store, tmp_path: Path) -> None:
    reported: list[str] = []
    ticks = iter(range(10**6))
    data = b"x" * 3_000_000
    download(
        a_file(store, data),
        tmp_path,
        progress=reported.append,
        settings=TransferSettings(now=lambda: next(ticks) / 4),
    )
    assert 1 <= len(reported) < 1000
    assert reported[0].startswith("downloading big.txt: ")
    assert all(line.endswith(" of 3 MB") for line in reported)
    reported.clear()
    download(
        a_file(store, data), tmp_path, progress=reported.append, settings=TransferSettings(now=lambda: 0)
    )
    assert len(reported) == 1


@pytest.mark.parametrize("name", ["/etc/x", "../x", "a/../../x", "C:x", "a\0b"])
def test_names_that_leave_the_folder_are_rejected(store: Store, tmp_path: Path, name: str) -> None:
    file = Fetch.model_construct(name=name, url=store.url("/b/key"))
    assert "is not allowed" in download_error(file, tmp_path)
    assert store.requests == []


def test_two_files_cannot_have_the_same_name(store: Store, tmp_path: Path) -> None:
    assert "two files are named" in download_error(
        [a_file(store, b"x", "a"), a_file(store, b"x", "a")], tmp_path
    )


def test_a_joined_file_cannot_have_the_name_of_another_file(store: Store, tmp_path: Path) -> None:
    part = a_file(store, b"x", "all.part-000000", into="all")
    assert "two files are named 'all'" in download_error([a_file(store, b"x", "all"), part], tmp_path)
    assert store.requests == []


class FullDisk(io.BytesIO):
    def write(self, data: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_is_not_retried(store: Store) -> None:
    file = a_file(store, DATA)
    exchange = GuardedExchange(TransferContext(Event(), lambda _: None, SETTINGS))
    download = Download(file, FullDisk(), exchange, progress=lambda _: None, rewindable=True)
    with pytest.raises(PermanentError, match="cannot write the file: No space left on device"):
        download.attempt(file.url, None)
    assert len(store.requests) == 1


def test_a_changed_object_that_was_split_needs_a_recompute(store: Store, tmp_path: Path) -> None:
    part = a_file(store, b"new", etag=etag_of(b"old"), first=1, end=2)
    assert "recompute the step" in download_error(part, tmp_path)


def test_predata_is_downloaded_once(store: Store, tmp_path: Path) -> None:
    cache, seen = Cache(tmp_path / "cache", 10_000), []
    file = a_file(store, DATA, "ref/db", kind="predata", sha256=hashlib.sha256(DATA).hexdigest())
    for number in range(3):
        folder = tmp_path / str(number)
        folder.mkdir()
        [path] = download(file, folder, cache=cache, set_owner=seen.append)
        assert path.read_bytes() == DATA
        assert not path.stat().st_mode & 0o222
    assert len(store.requests) == 1
    assert [path.name for path in seen] == ["ref"] * 3


def test_predata_without_a_checksum_is_not_cached(store: Store, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    [path] = download(
        a_file(store, DATA, kind="predata"), tmp_path / "work", cache=Cache(tmp_path / "cache", 10_000)
    )
    assert path.read_bytes() == DATA
    assert path.stat().st_nlink == 1


def test_missing_optional_predata_leaves_no_cache_entry(store: Store, tmp_path: Path) -> None:
    file = Fetch(name="x", kind="predata", url=store.url("/no"), optional=True, size=1, etag="e")
    (tmp_path / "work").mkdir()
    assert download(file, tmp_path / "work", cache=Cache(tmp_path / "cache", 100)) == []
    assert [path for path in (tmp_path / "cache").iterdir() if path.suffix != ".lock"] == []


# Uploads


@dataclass
class FakeFileUrls:
    """Returns URLs of the store, as Shardmill would."""

    store_: Store
    requests: list[StoreRequest] = field(default_factory=list)
    completed: list[tuple[str, str, list[str]]] = field(default_factory=list)
    faults: list[Exception] = field(default_factory=list)
    uploads: list[str] = field(default_factory=lambda: ["u1"])
    calls: int = 0

    def prepare(self, lease: Lease) -> Prepared:
        return Prepared()

    def store(self, lease: Lease, requests: Sequence[StoreRequest]) -> list[StoreAnswer]:
        self._fail()
        self.calls += 1
        self.requests.extend(requests)
        upload = self.uploads.pop(0) if len(self.uploads) > 1 else self.uploads[0]
        return [self._answer(each, upload) for each in requests]

    def _answer(self, request: StoreRequest, upload: str) -> StoreAnswer:
        many = len(request.md5s) > 1
        paths = [f"/{upload}/{request.name}/{number}" for number in range(len(request.md5s))]
        return StoreAnswer(
            name=request.name,
            upload_id=upload if many else None,
            urls=[self.store_.url(path if many else f"/{request.name}") for path in paths],
            headers=[{"content-md5": md5} for md5 in request.md5s],
        )

    def complete(self, lease: Lease, name: str, upload_id: str, etags: Sequence[str]) -> None:
        self._fail()
        self.completed.append((name, upload_id, list(etags)))
        parts = [self.store_.objects[f"/{upload_id}/{name}/{number}"] for number in range(len(etags))]
        self.store_.objects[f"/{name}"] = b"".join(parts)

    def _fail(self) -> None:
        if self.faults:
            raise self.faults.pop(0)


@pytest.fixture
def file_urls(store: Store) -> FakeFileUrls:
    return FakeFileUrls(store)


@pytest.fixture
def small_parts() -> Iterator[None]:
    with patch.object(transfers, "PART_BYTES", PART):
        yield


def upload(outputs: Sequence[File], folder: Path, file_urls: FileUrls, **more: Any) -> list[Stored]:
    options: dict[str, Any] = {"stop": Event(), "progress": lambda _: None, "settings": SETTINGS}
    return upload_all(a_lease(), outputs, folder, file_urls, **(options | more))


def upload_error(outputs: Sequence[File], folder: Path, file_urls: FileUrls, **more: Any) -> str:
    with pytest.raises(TransferError) as raised:
        upload(outputs, folder, file_urls, **more)
    assert "s3cret" not in str(raised.value)
    return str(raised.value)


@settings(max_examples=40)
@given(size=st.integers(0, 4 * PART + 1), failing=st.lists(st.sampled_from([500, 503]), max_size=2))
def test_uploads_are_exact(server: Store, size: int, failing: list[int]) -> None:
    server.objects, server.requests, server.encrypted, server.chunked = {}, [], False, False
    server.faults = [Fault(status) for status in failing]
    file_urls, data = FakeFileUrls(server), os.urandom(size)
    with tempfile.TemporaryDirectory() as folder, patch.object(transfers, "PART_BYTES", PART):
        Path(folder, "out.bin").write_bytes(data)
        stored = upload([File(name="out.bin")], Path(folder), file_urls)
    assert stored == [Stored(name="out.bin", size=size, sha256=hashlib.sha256(data).hexdigest())]
    assert server.objects["/out.bin"] == data
    parts = max(1, -(-size // PART))
    assert len(file_urls.requests[0].md5s) == parts
    assert len(server.requests) == parts + len(failing)
    assert len(file_urls.completed) == (parts > 1)


@given(st.integers(0, 2**50))
def test_parts_cover_a_file_within_the_maximum_number(size: int) -> None:
    ranges = part_ranges(size)
    assert 1 <= len(ranges) <= transfers.MAX_PARTS
    assert ranges[0][0] == 0
    assert ranges[-1][1] == size
    assert all(end == first for (_, end), (first, _) in pairwise(ranges))
    assert (len(ranges) == 1) == (size <= transfers.PART_BYTES)


@pytest.mark.usefixtures("small_parts")
def test_only_the_failed_part_is_uploaded_again(
    store: Store, file_urls: FakeFileUrls, tmp_path: Path
) -> None:
    (tmp_path / "o").write_bytes(os.urandom(3 * PART))
    store.faults = [Fault(), Fault(500), Fault(etag="0" * 32)]
    upload([File(name="o")], tmp_path, file_urls)
    assert [path.partition("?")[0][-1] for _, path, _ in store.requests] == ["0", "1", "1", "1", "2"]
    [(_, upload_id, etags)] = file_urls.completed
    assert upload_id == "u1"
    assert etags == [etag_of(store.objects[f"/u1/o/{number}"]) for number in range(3)]


def test_a_wrong_etag_of_an_upload_is_detected(store: Store, file_urls: FakeFileUrls, tmp_path: Path) -> None:
    (tmp_path / "o").write_bytes(b"x")
    store.faults = [Fault(etag="0" * 32)] * 3
    assert upload_error([File(name="o")], tmp_path, file_urls) == (
        "cannot upload output 'o': the object store received different content than was sent (tried 3 times)"
    )


def test_etags_of_encrypted_objects_are_not_compared(
    store: Store, file_urls: FakeFileUrls, tmp_path: Path
) -> None:
    store.encrypted = True
    (tmp_path / "o").write_bytes(b"x")
    assert upload([File(name="o")], tmp_path, file_urls)[0].size == 1


def test_a_refused_upload_is_not_retried(store: Store, file_urls: FakeFileUrls, tmp_path: Path) -> None:
    (tmp_path / "o").write_bytes(b"x")
    for status, error in ((403, "403 Forbidden"), (404, "404 Not Found")):
        store.faults = [Fault(status)]
        assert error in upload_error([File(name="o")], tmp_path, file_urls)
    assert len(store.requests) == 2


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize(
    ("uploads", "sent"),
    [
        (["u1"], ["u1/0", "u1/1", "u1/1", "u1/2"]),
        (["u1", "u2"], ["u1/0", "u1/1", "u2/1", "u2/0", "u2/1", "u2/2"]),
    ],
)
def test_expired_urls_of_parts_are_renewed(
    store: Store, file_urls: FakeFileUrls, tmp_path: Path, uploads: list[str], sent: list[str]
) -> None:
    """The upload continues where Shardmill returns the same upload id; otherwise it restarts."""
    data = os.urandom(3 * PART)
    (tmp_path / "o").write_bytes(data)
    file_urls.uploads = uploads
    store.faults = [Fault(), Fault(403, body=b"Request has expired")]
    upload([File(name="o")], tmp_path, file_urls)
    assert [path.partition("?")[0][1:].replace("/o/", "/") for _, path, _ in store.requests] == sent
    assert store.objects["/o"] == data


@pytest.mark.usefixtures("small_parts")
def test_an_upload_that_keeps_restarting_fails(store: Store, file_urls: FakeFileUrls, tmp_path: Path) -> None:
    (tmp_path / "o").write_bytes(os.urandom(2 * PART))
    file_urls.uploads = [f"u{number}" for number in range(100)]
    store.faults = [Fault(), Fault(403, body=b"Request has expired")] * 50
    assert "longer than its presigned URLs are valid" in upload_error([File(name="o")], tmp_path, file_urls)


@pytest.mark.usefixtures("small_parts")
def test_unreachable_calls_to_shardmill_are_retried(file_urls: FakeFileUrls, tmp_path: Path) -> None:
    (tmp_path / "o").write_bytes(os.urandom(2 * PART))
    file_urls.faults = [Unreachable("connection refused"), Unreachable("connection refused")]
    assert len(upload([File(name="o")], tmp_path, file_urls)) == 1
    file_urls.faults = [Unreachable("connection refused")] * 3
    assert upload_error([File(name="o")], tmp_path, file_urls) == (
        "cannot upload the outputs: connection refused (tried 3 times)"
    )
    file_urls.faults = [Refused("not yours")]
    assert upload_error([File(name="o")], tmp_path, file_urls) == "cannot upload the outputs: not yours"


def test_a_response_without_a_url_is_an_error(file_urls: FakeFileUrls, tmp_path: Path) -> None:
    (tmp_path / "o").write_bytes(b"x")
    with patch.object(FakeFileUrls, "store", return_value=[]):
        assert "returned no upload URL for 'o'" in upload_error([File(name="o")], tmp_path, file_urls)


def test_urls_of_small_outputs_are_requested_in_batches(file_urls: FakeFileUrls, tmp_path: Path) -> None:
    for number in range(250):
        (tmp_path / f"part-{number:03}.csv").write_bytes(b"x")
    stored = upload([File(name="part-*.csv")], tmp_path, file_urls)
    assert [each.name for each in stored] == [f"part-{number:03}.csv" for number in range(250)]
    assert file_urls.calls == 3


def test_nothing_is_uploaded_if_an_output_is_missing(
    store: Store, file_urls: FakeFileUrls, tmp_path: Path
) -> None:
    (tmp_path / "a").write_bytes(b"x")
    assert upload_error([File(name="a"), File(name="x")], tmp_path, file_urls) == "output 'x' is missing"
    assert store.requests == []


def test_a_file_that_changes_during_the_upload_is_rejected(
    store: Store, file_urls: FakeFileUrls, tmp_path: Path
) -> None:
    path = tmp_path / "o"
    path.write_bytes(b"before")
    real: Callable[..., Any] = FakeFileUrls.store

    def change_during_store(self: FakeFileUrls, *args: Any) -> Any:
        path.write_bytes(b"after!")
        return real(self, *args)

    with patch.object(FakeFileUrls, "store", change_during_store):
        assert "400 Bad Request (BadDigest) (tried 3 times)" in upload_error(
            [File(name="o")], tmp_path, file_urls
        )
    assert store.objects == {}


def test_an_upload_stops_with_its_task(file_urls: FakeFileUrls, tmp_path: Path) -> None:
    (tmp_path / "o").write_bytes(b"x")
    stop = Event()
    stop.set()
    with pytest.raises(TransferInterrupted, match=DISCARDED):
        upload([File(name="o")], tmp_path, file_urls, stop=stop)
    assert file_urls.requests == []


def test_a_stalled_upload_stops_with_its_task(store: Store, file_urls: FakeFileUrls, tmp_path: Path) -> None:
    (tmp_path / "o").write_bytes(b"x")
    stop = Event()
    store.faults = [Fault(stall=True)]

    def once_asked() -> None:
        while not store.requests:
            stop.wait(0.01)
        stop.set()

    threading.Thread(target=once_asked).start()
    with pytest.raises(TransferInterrupted, match=DISCARDED):
        upload([File(name="o")], tmp_path, file_urls, stop=stop, settings=TransferSettings(read_seconds=100))
    assert not store.woken.is_set()


def test_models_are_camel_case_and_hide_urls() -> None:
    fetch = Fetch.model_validate({"name": "x", "url": f"https://h/?{SECRET}", "later": 1})
    answer = StoreAnswer.model_validate({"name": "x", "uploadId": "u", "urls": [SECRET], "headers": [{}]})
    assert "s3cret" not in repr(fetch) + repr(answer)
    assert answer.model_dump()["uploadId"] == "u"
