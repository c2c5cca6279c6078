"""files, get and submit --file."""

import hashlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.fakes.api import FakeApi, Reply, Run, command_line, job, job_file, output_of, page, problem
from support.fakes.object_store import OWNER, FakeStore

FILES = "/v1/jobs/report/t1/files"

SECRET = "s3cret"


@pytest.fixture
def run(api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Run commands in an empty folder, and verify that no output contains a presigned URL."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    with command_line(api) as found:

        def checked(*arguments: str, **more: Any) -> Any:
            result = found(*arguments, **more)
            assert SECRET not in result.output
            return result

        yield checked


@pytest.fixture
def store(api: FakeApi, run: Run) -> FakeStore:
    return FakeStore(api, os.environ["SHARDMILL_URL"])


def some(store: FakeStore, count: int, name: str = "part-{}.csv", **more: Any) -> list[dict[str, Any]]:
    return [
        store.add(name.format(at), f"{at}\n".encode(), **{"stepName": "main", "index": at, **more})
        for at in range(count)
    ]


def written(folder: Path) -> dict[str, str]:
    return {
        each.relative_to(folder).as_posix(): each.read_text() for each in folder.rglob("*") if each.is_file()
    }


def test_files_are_listed(api: FakeApi, run: Run) -> None:
    given = job_file("te\x1bxt.txt", b"x" * 2_700_000, f"http://x/?{SECRET}")
    made = job_file("words.txt", b"w", f"http://x/?{SECRET}", stepName="merge", index=0, attributes={"a": 1})
    api.on("GET", FILES, page(given, made))
    heading, first, second = output_of(run("files", "report", "t1")).splitlines()
    assert heading.split() == ["STEP", "INDEX", "NAME", "SIZE", "SHA256"]
    assert first.split() == ["-", "-", "te", "xt.txt", "2.7", "MB", given["sha256"][:12]]
    assert second.split() == ["merge", "0", "words.txt", "1", "B", made["sha256"][:12]]
    found = json.loads(output_of(run("files", "report", "t1", "--json")))
    assert [each["sha256"] for each in found] == [given["sha256"], made["sha256"]]
    assert found[1]["attributes"] == {"a": 1}
    assert "url" not in found[0]


def test_files_are_filtered_by_step_and_name(api: FakeApi, run: Run) -> None:
    api.on("GET", FILES, page())
    result = run("files", "report", "t1", "--step", "main", "--name", "part-*")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "shardmill: job report/t1 has no files matching 'part-*' in step 'main'\n"
    assert api.requests[-1].query == {"step": "main", "name": "part-*", "limit": "200"}
    assert run("files", "report", "t1").stderr == "shardmill: job report/t1 has no files\n"
    assert json.loads(output_of(run("files", "report", "t1", "--json"))) == []


def test_files_of_a_missing_job_exit_3(api: FakeApi, run: Run) -> None:
    api.on("GET", FILES, problem(404, "job-not-found", "there is no Job report/t1"))
    for command in (["files", "report", "t1"], ["get", "report", "t1", "x"]):
        result = run(*command)
        assert (result.exit_code, result.stderr) == (3, "shardmill: there is no Job report/t1\n")


def test_one_file_is_downloaded_under_its_name(store: FakeStore, run: Run, tmp_path: Path) -> None:
    store.list(store.add("a/words.txt", b"words", stepName="main", index=0))
    assert output_of(run("get", "report", "t1", "a/words.txt")) == "a/words.txt\n"
    assert output_of(run("get", "report", "t1", "a/words.txt", "--to", "other")) == "other\n"
    assert output_of(run("get", "report", "t1", "a/words.txt", "--to", "new/")) == "new/a/words.txt\n"
    assert written(tmp_path) == dict.fromkeys(["a/words.txt", "other", "new/a/words.txt"], "words")
    assert store.api.requests[0].query["name"] == "a/words.txt"
    (printed,) = json.loads(output_of(run("get", "report", "t1", "a/words.txt", "--to", "third", "--json")))
    assert (printed["path"], printed["index"], "url" in printed) == ("third", 0, False)


def test_nothing_is_overwritten_without_force(store: FakeStore, run: Run, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "part-1.csv").write_text("mine")
    store.list(*some(store, 3))
    result = run("get", "report", "t1", "part-*", "--to", "out")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "shardmill: out/part-1.csv already exists: choose another path, or overwrite it with --force\n"
    )
    assert not store.requests
    assert written(tmp_path) == {"out/part-1.csv": "mine"}
    output_of(run("get", "report", "t1", "part-*", "--to", "out", "--force"))
    assert written(tmp_path) == {f"out/part-{at}.csv": f"{at}\n" for at in range(3)}


def test_pattern_writes_into_a_folder_even_for_one_file(store: FakeStore, run: Run, tmp_path: Path) -> None:
    store.list(*some(store, 1))
    assert output_of(run("get", "report", "t1", "part-*", "--to", "out")) == "out/part-0.csv\n"
    assert written(tmp_path) == {"out/part-0.csv": "0\n"}


def test_files_of_the_same_name_go_into_folders_by_index(store: FakeStore, run: Run, tmp_path: Path) -> None:
    store.list(*some(store, 3, "log.txt"), store.add("own.txt", b"x", stepName="main", index=1))
    output_of(run("get", "report", "t1", "*.txt", "--to", "out"))
    assert written(tmp_path) == {
        "out/0/log.txt": "0\n",
        "out/1/log.txt": "1\n",
        "out/2/log.txt": "2\n",
        "out/own.txt": "x",
    }


def test_files_are_joined_in_order(store: FakeStore, run: Run, tmp_path: Path) -> None:
    store.list(*some(store, 12))
    store.replies = [1]
    whole = "".join(f"{at}\n" for at in range(12))
    assert output_of(run("get", "report", "t1", "part-*", "--join", "--to", "all.csv")) == "all.csv\n"
    assert written(tmp_path) == {"all.csv": whole}
    assert output_of(run("get", "report", "t1", "part-*", "--join", "--to", "-")) == whole


def test_failed_join_leaves_no_file(store: FakeStore, run: Run, tmp_path: Path) -> None:
    store.list(*some(store, 3))
    store.replies = [2, Reply(b"<Code>NoSuchKey</Code>", 404)]
    result = run("get", "report", "t1", "part-*", "--join", "--to", "all.csv")
    assert result.exit_code == 1
    assert result.stderr.startswith("shardmill: cannot download the file 'part-1.csv': http://127.0.0.1")
    assert written(tmp_path) == {}


def test_index_selects_one_task(store: FakeStore, run: Run) -> None:
    store.list(*some(store, 3, "log.txt"), store.add("log.txt", b"given"))
    assert output_of(run("get", "report", "t1", "log.txt", "--index", "1", "--to", "-")) == "1\n"
    missing = run("get", "report", "t1", "log.txt", "--step", "main", "--index", "7")
    assert missing.exit_code == 3
    assert missing.stderr == (
        "shardmill: job report/t1 has no file matching 'log.txt' in step 'main' of task 7; "
        "to list its files, run: shardmill files report t1\n"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "3 files match 'log.txt': select one with --step and --index, concatenate them with --join"),
        (["--to", "one"], "3 files match"),
        (["--to", "-"], "3 files match"),
        (["--join"], "must be a single file, or -, with --join"),
        (["--join", "--to", "out/"], "must be a single file, or -, with --join"),
        (["--join", "--to", "-", "--json"], "cannot be standard output"),
        (["--to", ""], "must be a path"),
    ],
)
def test_ambiguous_target_is_rejected(
    store: FakeStore, run: Run, tmp_path: Path, options: list[str], message: str
) -> None:
    store.list(*some(store, 3, "log.txt"))
    result = run("get", "report", "t1", "log.txt", *options)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert not store.requests
    assert written(tmp_path) == {}


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "a/../../evil", "link/evil", "C:evil"])
def test_no_file_is_written_outside_the_folder(store: FakeStore, run: Run, tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "link").symlink_to(tmp_path)
    store.list(store.add(name, b"evil", stepName="main", index=0))
    result = run("get", "report", "t1", "*", "--to", "folder")
    assert result.exit_code == 1
    assert "cannot write the file" in result.stderr
    assert not store.requests
    assert written(tmp_path) == {}


def test_submitted_files_are_uploaded_once(store: FakeStore, run: Run, tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text("a = book")
    store.api.on("POST", "/v1/jobs", Reply(job("INIT"), 202), Reply(job("INIT")))
    command = ["submit", "report", "--trigger", "t1", "--file", "data/text.txt=book.txt"]
    assert output_of(run(*command)) == "report t1 INIT\n"
    repeated = run(*command)
    assert repeated.exit_code == 0
    assert "already exists with an identical request" in repeated.stderr
    first, second = (each for each in store.api.requests if each.path == "/v1/jobs")
    assert first.body == second.body
    sha256 = hashlib.sha256(b"a = book").hexdigest()
    assert first.document["files"] == [{"name": "data/text.txt", "upload": f"{OWNER}-{sha256}", "size": 8}]
    assert [each.method for each in store.requests] == ["PUT"]


@pytest.mark.parametrize(
    ("files", "code", "message"),
    [
        (["text.txt"], 2, "'text.txt' must have the form NAME=PATH"),
        (["a=x", "a=y"], 2, "'a' is given more than once"),
        (["a=missing"], 1, "cannot read missing: No such file or directory"),
        (["a=."], 1, ". is a folder: pack it into one file first, for example with tar"),
        (["../a=book.txt"], 1, "/files/0/name: '../a' must be a relative path inside the work folder"),
    ],
)
def test_invalid_file_is_rejected(
    api: FakeApi, run: Run, tmp_path: Path, files: list[str], code: int, message: str
) -> None:
    (tmp_path / "book.txt").write_text("a book")
    result = run("submit", "report", *(part for each in files for part in ("--file", each)))
    assert result.exit_code == code
    assert message in result.stderr
    assert not api.requests


def test_missing_file_suggests_the_file_option(api: FakeApi, run: Run) -> None:
    message = "step 'count' reads a file 'text.txt' that must come with the Job"
    fault = {"pointer": "/files", "code": "missing-file", "message": message}
    api.on("POST", "/v1/jobs", problem(422, "invalid-request", "not valid", faults=[fault]))
    printed = run("submit", "report").stderr.splitlines()[-1]
    assert printed == f"shardmill:   /files: {message}: give it with --file 'text.txt=PATH'"
