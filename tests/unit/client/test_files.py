"""Files of Jobs with the SDK: listing, uploads and downloads, with a local store that fails."""

import hashlib
import io
import logging
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.client.client import Client
from shardmill.client.errors import BadFile, BadName, NotFound, TransferFailed
from shardmill.client.local_files import measure, new_file, path_inside
from shardmill.model.transfers import MAX_UPLOAD_BYTES, JobFile
from shardmill.transfer.exchange import redact
from support.fakes.api import TOKEN, FakeApi, Reply, job, job_file, page
from support.fakes.object_store import OWNER, FakeStore

FILES = "/v1/jobs/report/t1/files"
OF = ("report", "t1")
EXPIRED = Reply(b"<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>", 403)


@contextmanager
def a_store() -> Iterator[tuple[FakeStore, Client]]:
    """Yield a fake store, and a client that does not sleep between attempts."""
    api = FakeApi()
    with api.served() as url, pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "sleep", lambda _: None)
        with Client(url, TOKEN) as client:
            yield FakeStore(api, url), client


@pytest.fixture
def store_and_client() -> Iterator[tuple[FakeStore, Client]]:
    with a_store() as found:
        yield found


@pytest.fixture
def store(store_and_client: tuple[FakeStore, Client]) -> FakeStore:
    return store_and_client[0]


@pytest.fixture
def client(store_and_client: tuple[FakeStore, Client]) -> Client:
    return store_and_client[1]


def stored_file(
    store: FakeStore, name: str = "words.txt", content: bytes = b"some words\n", **more: Any
) -> JobFile:
    return JobFile.model_validate(store.add(name, content, **more))


def files_in(folder: Path) -> list[str]:
    return sorted(each.relative_to(folder).as_posix() for each in folder.rglob("*") if each.is_file())


# Listing


def test_files_are_listed_page_by_page(store: FakeStore, client: Client) -> None:
    one, two = job_file("a", b"1", "u"), job_file("b", b"2", "u", stepName="main", index=3, new="field")
    store.api.on("GET", FILES, page(one, cursor="c"), page(two))
    found = list(client.files("report", "t1", step="main", name="*"))
    assert [(each.name, each.step_name, each.index) for each in found] == [
        ("a", None, None),
        ("b", "main", 3),
    ]
    common = {"step": "main", "name": "*", "limit": "200"}
    assert [each.query for each in store.api.requests] == [common, {**common, "cursor": "c"}]


def test_an_invalid_step_name_is_not_sent(store: FakeStore, client: Client) -> None:
    with pytest.raises(BadName):
        list(client.files("report", "t1", step="a/b"))
    assert not store.api.requests


# Downloads


@settings(max_examples=25)
@given(st.binary(max_size=3_000), st.lists(st.integers(0, 3_000), max_size=6), st.booleans(), st.data())
def test_interrupted_downloads_are_complete(
    content: bytes, breaks: list[int], supports_ranges: bool, data: st.DataObject
) -> None:
    """Connections break at any byte, and some responses are server errors."""
    with a_store() as (store, client), tempfile.TemporaryDirectory() as folder:
        replies: list[Reply | int] = []
        for each in breaks:
            replies += data.draw(st.lists(st.sampled_from([Reply(b"", 503), Reply(b"", 429)]), max_size=3))
            replies.append(each if supports_ranges else each + len(content) // 7 * len(replies))
        store.replies, store.supports_ranges = replies[:4], supports_ranges
        path = client.download(stored_file(store, content=content), Path(folder) / "x")
        assert path.read_bytes() == content
        assert files_in(Path(folder)) == ["x"]


def test_an_interrupted_download_resumes(store: FakeStore, client: Client, tmp_path: Path) -> None:
    content = os.urandom(5_000)
    store.replies = [1_000, 1, Reply(b"", 500), 2_000]
    progress: list[tuple[str, int, int]] = []
    client.download(
        stored_file(store, content=content), tmp_path, progress=lambda *each: progress.append(each)
    )
    assert (tmp_path / "words.txt").read_bytes() == content
    ranges = [each.headers.get("range") for each in store.requests]
    assert ranges == [None, "bytes=1000-", "bytes=1001-", "bytes=1001-", "bytes=3001-"]
    assert progress[-1] == ("downloading words.txt", 5_000, 5_000)
    assert [each[1] for each in progress] == sorted(each[1] for each in progress)


def test_a_download_fails_after_five_attempts_without_progress(
    store: FakeStore, client: Client, tmp_path: Path
) -> None:
    store.replies = [4, *[Reply(b"", 503)] * 20]
    with pytest.raises(
        TransferFailed, match=r"cannot download the file 'words.txt': .*503.*tried 5 times"
    ) as why:
        client.download(stored_file(store), tmp_path)
    assert "s3cret" not in str(why.value)
    assert len(store.requests) == 1 + 4
    assert files_in(tmp_path) == []


@pytest.mark.parametrize(
    ("served", "why"),
    [
        (b"other words", "checksum"),
        (b"some words and more", "more than the expected 11 bytes"),
        (b"some", "received 4 of 11 bytes"),
    ],
)
def test_wrong_content_is_not_kept(
    store: FakeStore, client: Client, tmp_path: Path, served: bytes, why: str
) -> None:
    file = stored_file(store, content=served).model_copy(
        update={"size": 11, "sha256": hashlib.sha256(b"some words\n").hexdigest()}
    )
    store.supports_ranges = False
    with pytest.raises(TransferFailed, match=why):
        client.download(file, tmp_path)
    assert files_in(tmp_path) == []


def test_an_empty_file_is_downloaded(store: FakeStore, client: Client, tmp_path: Path) -> None:
    assert client.download(stored_file(store, content=b""), tmp_path / "empty").read_bytes() == b""


def test_an_expired_url_is_renewed(store: FakeStore, client: Client, tmp_path: Path) -> None:
    listed = store.add("a[1]*.txt", b"x" * 100, stepName="main", index=2)
    other = store.add("a[1]*.txt", b"y", stepName="main", index=1)
    old = JobFile.model_validate({**listed, "url": listed["url"] + "&old"})
    store.replies = [50, EXPIRED]
    store.list(other, listed)
    client.download(old, tmp_path / "x", of=OF)
    assert (tmp_path / "x").read_bytes() == b"x" * 100
    listing = next(each for each in store.api.requests if each.path == FILES)
    assert listing.query["name"] == "a[[]1][*].txt"
    assert listing.query["step"] == "main"
    assert ["old" in each.query for each in store.requests] == [True, True, False]


def test_an_expired_url_that_cannot_be_renewed_is_an_error(
    store: FakeStore, client: Client, tmp_path: Path
) -> None:
    store.replies = [EXPIRED]
    with pytest.raises(TransferFailed, match=r"403 Forbidden \(AccessDenied\); .*list the files again"):
        client.download(stored_file(store), tmp_path)


def test_a_file_that_was_deleted_or_replaced_is_an_error(
    store: FakeStore, client: Client, tmp_path: Path
) -> None:
    file = stored_file(store)
    store.replies = [EXPIRED]
    store.list()
    with pytest.raises(NotFound, match=r"no longer has a file 'words.txt'"):
        client.download(file, tmp_path, of=OF)
    store.replies = [EXPIRED]
    store.list(store.add("words.txt", b"new"))
    with pytest.raises(TransferFailed, match="was replaced"):
        client.download(file, tmp_path, of=OF)
    store.replies = [Reply(b"<Code>NoSuchKey</Code>", 404)]
    with pytest.raises(TransferFailed, match=r"404 Not Found \(NoSuchKey\)"):
        client.download(file, tmp_path)


@pytest.mark.parametrize("url", ["", "ftp://x/y?s3cret", "http://[::1?s3cret", "http://h:port/?s3cret", "x"])
def test_invalid_urls_are_not_shown(client: Client, tmp_path: Path, url: str) -> None:
    file = JobFile.model_validate(job_file("a", b"1", url))
    with pytest.raises(TransferFailed) as why:
        client.download(file, tmp_path)
    assert "s3cret" not in str(why.value)


def test_the_token_is_not_sent_to_the_store_and_signatures_are_not_logged(
    store: FakeStore, client: Client, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    (tmp_path / "a").write_bytes(b"1")
    client.upload(tmp_path / "a")
    client.download(stored_file(store), tmp_path)
    assert len(store.requests) == 2
    assert not any("authorization" in each.headers for each in store.requests)
    assert "HTTP Request: PUT" in caplog.text
    assert "s3cret" not in caplog.text


def test_a_file_can_be_written_to_a_stream(store: FakeStore, client: Client) -> None:
    out = io.BytesIO(b"before ")
    out.seek(0, io.SEEK_END)
    store.replies = [3]
    client.download_into(stored_file(store), out)
    assert out.getvalue() == b"before some words\n"


# Targets of downloads


def test_existing_files_are_overwritten_only_with_force(
    store: FakeStore, client: Client, tmp_path: Path
) -> None:
    (tmp_path / "words.txt").write_text("mine")
    with pytest.raises(BadFile, match=r"words.txt already exists: .*force"):
        client.download(stored_file(store), tmp_path)
    assert not store.requests
    client.download(stored_file(store), tmp_path / "words.txt", force=True)
    assert (tmp_path / "words.txt").read_text() == "some words\n"


def test_missing_folders_are_created(store: FakeStore, client: Client, tmp_path: Path) -> None:
    assert client.download(stored_file(store, "a/b"), f"{tmp_path}/new/") == tmp_path / "new" / "a" / "b"
    assert client.download(stored_file(store, "c"), tmp_path / "new") == tmp_path / "new" / "c"
    assert client.download(stored_file(store, "d"), tmp_path / "other" / "e") == tmp_path / "other" / "e"
    assert files_in(tmp_path) == ["new/a/b", "new/c", "other/e"]


def test_a_symlink_is_replaced_and_not_followed(store: FakeStore, client: Client, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "link").symlink_to("mine")
    client.download(stored_file(store), tmp_path / "link", force=True)
    assert (tmp_path / "mine").read_text() == "mine"
    assert (tmp_path / "link").read_text() == "some words\n"


def test_only_regular_files_are_written(store: FakeStore, client: Client, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "words.txt").mkdir()
    for target in (tmp_path / "pipe", tmp_path, tmp_path / "pipe" / "x", "a\0b"):
        with pytest.raises(BadFile, match="cannot write"):
            client.download(stored_file(store), target, force=True)


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    def fill() -> None:
        with new_file(tmp_path / "new" / "a", force=False) as out:
            out.write(b"1")
            raise OSError(28, "No space left on device")

    with pytest.raises(BadFile, match=r"cannot write .*a: No space left"):
        fill()
    assert files_in(tmp_path) == []


def test_a_file_created_during_the_download_is_not_overwritten(tmp_path: Path) -> None:
    def race() -> None:
        with new_file(tmp_path / "a", force=False) as out:
            out.write(b"ours")
            (tmp_path / "a").write_text("theirs")

    with pytest.raises(BadFile, match="already exists"):
        race()
    assert (tmp_path / "a").read_text() == "theirs"
    assert files_in(tmp_path) == ["a"]


PARTS = st.sampled_from(["a", "b.txt", "..", ".", "", "link", "C:", "-", "a\nb", "\0", "\\..\\x", "~"])


@given(st.lists(PARTS, max_size=5).map("/".join) | st.text(max_size=20))
def test_a_name_never_leaves_the_folder(name: str) -> None:
    with tempfile.TemporaryDirectory() as outside:
        folder = Path(outside) / "folder"
        folder.mkdir()
        (folder / "link").symlink_to(outside)
        try:
            with new_file(path_inside(folder, name), force=True) as out:
                out.write(b"x")
        except (BadFile, UnicodeEncodeError):
            assert files_in(Path(outside)) == []
        else:
            written = [each for each in Path(outside).rglob("*") if each.is_file() and not each.is_symlink()]
            assert len(written) == 1
            assert written[0].resolve().is_relative_to(folder)


# Uploads


def test_a_file_is_uploaded_once(store: FakeStore, client: Client, tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_bytes(b"a book")
    progress: list[tuple[str, int, int]] = []
    first = client.upload(tmp_path / "book.txt", progress=lambda *each: progress.append(each))
    sha256 = hashlib.sha256(b"a book").hexdigest()
    assert (first.upload, first.present, first.url) == (f"{OWNER}-{sha256}", True, None)
    assert store.objects == {sha256: b"a book"}
    assert progress == [("reading book.txt", 6, 6), ("uploading book.txt", 6, 6)]
    assert client.upload(str(tmp_path / "book.txt")) == first
    assert [each.method for each in store.requests] == ["PUT"]
    assert store.requests[0].headers["content-length"] == "6"
    assert "transfer-encoding" not in store.requests[0].headers


@settings(max_examples=20)
@given(content=st.binary(max_size=200), piece=st.integers(1, 50), failures=st.integers(0, 4))
def test_any_content_is_uploaded_unchanged(content: bytes, piece: int, failures: int) -> None:
    with (
        a_store() as (store, client),
        tempfile.TemporaryDirectory() as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr("shardmill.transfer.upload.PIECE_BYTES", piece)
        path = Path(folder) / "x"
        path.write_bytes(content)
        store.replies = [Reply(b"<Code>RequestTimeout</Code>", 400)] * failures
        client.upload(path)
        assert list(store.objects.values()) == [content]


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (Reply(b"<Code>AccessDenied</Code>", 403), r"returned 403 Forbidden \(AccessDenied\)"),
        (Reply(b"<Code>BadDigest</Code>", 400), r"returned 400 Bad Request \(BadDigest\)"),
        (Reply(b"", 302, {"location": "/elsewhere"}), "returned 302"),
    ],
)
def test_a_refused_upload_is_an_error(
    store: FakeStore, client: Client, tmp_path: Path, reply: Reply, why: str
) -> None:
    (tmp_path / "a").write_bytes(b"1")
    store.api.on("GET", "/elsewhere", Reply(b"not what we meant"))
    store.replies = [reply] * 5
    with pytest.raises(TransferFailed, match=rf"cannot upload .*a: .*{why}") as caught:
        client.upload(tmp_path / "a")
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("change", [b"A book", b"a boo", b"a book!", b""])
def test_a_file_that_changes_is_not_uploaded(tmp_path: Path, change: bytes) -> None:
    path = tmp_path / "book.txt"
    path.write_bytes(b"a book")
    found = measure(path, None)
    assert b"".join(found) == b"".join(found) == b"a book"
    path.write_bytes(change)
    out = io.BytesIO()
    with pytest.raises(BadFile, match="changed while it was read"):
        out.writelines(found)
    assert len(out.getvalue()) < 6


def test_invalid_files_are_rejected_before_any_upload(
    store: FakeStore, client: Client, tmp_path: Path
) -> None:
    (tmp_path / "good").write_bytes(b"1")
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "giant").open("wb") as giant:
        giant.truncate(MAX_UPLOAD_BYTES + 1)
    for path, why in (
        (tmp_path / "missing", "cannot read .*missing: No such file"),
        (tmp_path, "is a folder: pack it"),
        (tmp_path / "pipe", "not a regular file"),
        (tmp_path / "giant", r"5\.0 GiB; .* 5 GiB: put it into a bucket.*s3: \{bucket, key\}"),
        (Path("a\0b"), "cannot read"),
    ):
        with pytest.raises(BadFile, match=why):
            client.submit("report", "t1", files={"a": tmp_path / "good", "b": path})
    with pytest.raises(BadFile) as caught:
        client.submit("report", "t1", files={"../a": tmp_path / "good"})
    assert caught.value.faults[0].pointer == "/files/0/name"
    assert not store.api.requests


def test_files_of_a_request_are_sorted(store: FakeStore, client: Client, tmp_path: Path) -> None:
    for name in ("x", "y"):
        (tmp_path / name).write_text(f"content of {name}")
    store.api.on("POST", "/v1/jobs", Reply(job("INIT"), 202), Reply(job("INIT")))
    client.submit("report", "t1", files={"b.txt": tmp_path / "x", "a.txt": str(tmp_path / "y")})
    client.submit("report", "t1", files={"a.txt": tmp_path / "y", "b.txt": tmp_path / "x"})
    first, again = (each for each in store.api.requests if each.path == "/v1/jobs")
    assert first.body == again.body
    shas = [hashlib.sha256(f"content of {name}".encode()).hexdigest() for name in ("y", "x")]
    assert first.document["files"] == [
        {"name": "a.txt", "upload": f"{OWNER}-{shas[0]}", "size": 12},
        {"name": "b.txt", "upload": f"{OWNER}-{shas[1]}", "size": 12},
    ]
    assert len(store.requests) == 2


@given(st.text(max_size=30))
def test_urls_are_redacted(secret: str) -> None:
    shown = redact(f"https://me:pw@bucket.example.com:8443/a/key?X-Amz-Signature={secret}")
    assert shown in ("https://bucket.example.com:8443/a/key", "the URL")
