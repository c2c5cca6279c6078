"""files, get and submit --file, against an API and a store on loopback."""

import hashlib
import io
import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from shardmill.cli import output
from shardmill.cli.download import target_names
from shardmill.cli.render.bars import transfer_progress
from shardmill.client import BadFile
from shardmill.client import http as client_http
from shardmill.engine.files import split
from shardmill.engine.running import open_step
from shardmill.model.base import Model, spelled
from shardmill.model.definition.fields import MAX_ITEMS, StepDefine
from shardmill.model.definition.validation import check_definition
from shardmill.model.files import File, Partition
from shardmill.model.templates.expression import FILTERS, ORDERS
from shardmill.model.templates.render import KNOWN
from shardmill.model.transfers import MAX_UPLOAD_BYTES, JobFile
from shardmill.model.worker import MAX_OUTPUT_BYTES
from support.fakes.api import FakeApi, Reply, Run, command_line, fine, job, job_file, page, problem
from support.fakes.object_store import OWNER, FakeStore
from support.paths import PROJECT

FILES = "/v1/jobs/report/t1/files"
SECRET = "s3cret"
PAGE = (PROJECT / "docs" / "files.md").read_text()


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@pytest.fixture
def run(api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """In a folder of its own; nothing that it says gives an address away."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(client_http.time, "sleep", lambda _: None)
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
        store.keep(name.format(at), f"{at}\n".encode(), **{"stepName": "main", "index": at, **more})
        for at in range(count)
    ]


def written(folder: Path) -> dict[str, str]:
    return {
        each.relative_to(folder).as_posix(): each.read_text() for each in folder.rglob("*") if each.is_file()
    }


@contextmanager
def a_terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    with monkeypatch.context() as patch:
        screen = Screen()
        patch.setattr(sys, "stderr", screen)
        patch.setenv("TERM", "xterm")
        yield screen


def test_progress_is_shown_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    with transfer_progress() as silent:
        assert silent is None
    with a_terminal(monkeypatch) as screen:
        with transfer_progress() as show:
            assert show
            show("fetching [a]\x1b.txt", 500, 2_000)
            show("fetching [a]\x1b.txt", 2_000, 2_000)
            show("fetching b", 0, 0)
        assert "fetching b" in screen.getvalue()
        with transfer_progress(enabled=False) as unwanted:
            assert unwanted is None


# files


def test_files_are_listed(api: FakeApi, run: Run) -> None:
    given = job_file("te\x1bxt.txt", b"x" * 2_700_000, f"http://x/?{SECRET}")
    made = job_file("words.txt", b"w", f"http://x/?{SECRET}", stepName="merge", index=0, attributes={"a": 1})
    api.on("GET", FILES, page(given, made))
    heading, first, second = fine(run("files", "report", "t1")).splitlines()
    assert heading.split() == ["STEP", "INDEX", "NAME", "SIZE", "SHA256"]
    assert first.split() == ["-", "-", "te", "xt.txt", "2.7", "MB", given["sha256"][:12]]
    assert second.split() == ["merge", "0", "words.txt", "1", "B", made["sha256"][:12]]
    found = json.loads(fine(run("files", "report", "t1", "--json")))
    assert [each["sha256"] for each in found] == [given["sha256"], made["sha256"]]
    assert found[1]["attributes"] == {"a": 1}
    assert "url" not in found[0]


def test_files_are_chosen_by_step_and_name(api: FakeApi, run: Run) -> None:
    api.on("GET", FILES, page())
    result = run("files", "report", "t1", "--step", "main", "--name", "part-*")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "shardmill: job report/t1 has no files matching 'part-*' in step 'main'\n"
    assert api.seen[-1].query == {"step": "main", "name": "part-*", "limit": "200"}
    assert run("files", "report", "t1").stderr == "shardmill: job report/t1 has no files\n"
    assert json.loads(fine(run("files", "report", "t1", "--json"))) == []


def test_files_of_a_job_that_is_not_there(api: FakeApi, run: Run) -> None:
    api.on("GET", FILES, problem(404, "job-not-found", "there is no Job report/t1"))
    for command in (["files", "report", "t1"], ["get", "report", "t1", "x"]):
        result = run(*command)
        assert (result.exit_code, result.stderr) == (3, "shardmill: there is no Job report/t1\n")


@given(st.integers(0, 10**16))
def test_a_size_is_short_and_true(number: int) -> None:
    amount, unit = output.size(number).split()
    factor = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}[unit]
    assert float(amount) * factor == pytest.approx(number, rel=0.05, abs=0.5)
    assert len(amount) <= 5 or unit == "TB"


# get


def test_one_file_is_fetched_under_its_name(store: FakeStore, run: Run, tmp_path: Path) -> None:
    store.list(store.keep("a/words.txt", b"words", stepName="main", index=0))
    assert fine(run("get", "report", "t1", "a/words.txt")) == "a/words.txt\n"
    assert fine(run("get", "report", "t1", "a/words.txt", "--to", "other")) == "other\n"
    assert fine(run("get", "report", "t1", "a/words.txt", "--to", "new/")) == "new/a/words.txt\n"
    assert written(tmp_path) == dict.fromkeys(["a/words.txt", "other", "new/a/words.txt"], "words")
    assert store.api.seen[0].query["name"] == "a/words.txt"
    (told,) = json.loads(fine(run("get", "report", "t1", "a/words.txt", "--to", "third", "--json")))
    assert (told["path"], told["index"], "url" in told) == ("third", 0, False)


def test_nothing_is_overwritten_without_force(store: FakeStore, run: Run, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "part-1.csv").write_text("mine")
    store.list(*some(store, 3))
    result = run("get", "report", "t1", "part-*", "--to", "out")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "shardmill: out/part-1.csv exists already: choose another place, or overwrite it with --force\n"
    )
    assert not store.asked
    assert written(tmp_path) == {"out/part-1.csv": "mine"}
    fine(run("get", "report", "t1", "part-*", "--to", "out", "--force"))
    assert written(tmp_path) == {f"out/part-{at}.csv": f"{at}\n" for at in range(3)}


def test_a_pattern_goes_into_a_folder_however_many_it_fits(
    store: FakeStore, run: Run, tmp_path: Path
) -> None:
    store.list(*some(store, 1))
    assert fine(run("get", "report", "t1", "part-*", "--to", "out")) == "out/part-0.csv\n"
    assert written(tmp_path) == {"out/part-0.csv": "0\n"}


def test_files_of_one_name_go_into_folders_by_index(store: FakeStore, run: Run, tmp_path: Path) -> None:
    store.list(*some(store, 3, "log.txt"), store.keep("own.txt", b"x", stepName="main", index=1))
    fine(run("get", "report", "t1", "*.txt", "--to", "out"))
    assert written(tmp_path) == {
        "out/0/log.txt": "0\n",
        "out/1/log.txt": "1\n",
        "out/2/log.txt": "2\n",
        "out/own.txt": "x",
    }


def test_files_are_joined_in_their_order(store: FakeStore, run: Run, tmp_path: Path) -> None:
    store.list(*some(store, 12))
    store.moods = [1]
    whole = "".join(f"{at}\n" for at in range(12))
    assert fine(run("get", "report", "t1", "part-*", "--join", "--to", "all.csv")) == "all.csv\n"
    assert written(tmp_path) == {"all.csv": whole}
    assert fine(run("get", "report", "t1", "part-*", "--join", "--to", "-")) == whole


def test_a_failed_join_leaves_nothing(store: FakeStore, run: Run, tmp_path: Path) -> None:
    store.list(*some(store, 3))
    store.moods = [2, Reply(b"<Code>NoSuchKey</Code>", 404)]
    result = run("get", "report", "t1", "part-*", "--join", "--to", "all.csv")
    assert result.exit_code == 1
    assert result.stderr.startswith("shardmill: the file 'part-1.csv' could not be fetched: http://127.0.0.1")
    assert written(tmp_path) == {}


def test_one_task_is_chosen(store: FakeStore, run: Run) -> None:
    store.list(*some(store, 3, "log.txt"), store.keep("log.txt", b"given"))
    assert fine(run("get", "report", "t1", "log.txt", "--index", "1", "--to", "-")) == "1\n"
    missing = run("get", "report", "t1", "log.txt", "--step", "main", "--index", "7")
    assert missing.exit_code == 3
    assert missing.stderr == (
        "shardmill: job report/t1 has no file matching 'log.txt' in step 'main' of task 7; "
        "to list its files, run: shardmill files report t1\n"
    )


@pytest.mark.parametrize(
    ("options", "words"),
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
def test_what_is_not_clear_is_refused(
    store: FakeStore, run: Run, tmp_path: Path, options: list[str], words: str
) -> None:
    store.list(*some(store, 3, "log.txt"))
    result = run("get", "report", "t1", "log.txt", *options)
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.split())
    assert not store.asked
    assert written(tmp_path) == {}


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "a/../../evil", "link/evil", "C:evil"])
def test_no_file_is_written_out_of_the_folder(store: FakeStore, run: Run, tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "link").symlink_to(tmp_path)
    store.list(store.keep(name, b"evil", stepName="main", index=0))
    result = run("get", "report", "t1", "*", "--to", "folder")
    assert result.exit_code == 1
    assert "is not written" in result.stderr
    assert not store.asked
    assert written(tmp_path) == {}


FILE = st.builds(
    lambda step, name, index: JobFile.model_validate(
        job_file(name, b"", "", stepName=step, index=None if step is None else index)
    ),
    st.sampled_from([None, "main", "other"]),
    st.sampled_from(["a", "b", "0/a", "1/a", "a/b", "main/0/a", "job/a"]),
    st.integers(0, 2),
)


@given(st.lists(FILE, max_size=8, unique_by=lambda file: (file.step_name, file.index, file.name)))
def test_every_file_has_a_place_of_its_own(files: list[JobFile]) -> None:
    try:
        found = target_names(files)
    except BadFile:
        assert any("/" in file.name for file in files)  # a file and a folder of one name
        return
    assert len(set(found)) == len(files)
    folders = {parent.as_posix() for name in found for parent in PurePosixPath(name).parents}
    assert not folders & set(found)
    assert all(name.endswith(file.name) for name, file in zip(found, files, strict=True))
    own = [file.name for file in files]
    if len(set(own)) == len(own) and not any("/" in name for name in own):
        assert found == own


# submit --file


def test_files_come_with_a_job_and_are_sent_once(store: FakeStore, run: Run, tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text("a = book")
    store.api.on("POST", "/v1/jobs", Reply(job("INIT"), 202), Reply(job("INIT")))
    command = ["submit", "report", "--trigger", "t1", "--file", "data/text.txt=book.txt"]
    assert fine(run(*command)) == "report t1 INIT\n"
    again = run(*command)
    assert again.exit_code == 0
    assert "already exists with an identical request" in again.stderr
    first, second = (each for each in store.api.seen if each.path == "/v1/jobs")
    assert first.body == second.body
    sha256 = hashlib.sha256(b"a = book").hexdigest()
    assert first.document["files"] == [{"name": "data/text.txt", "upload": f"{OWNER}-{sha256}", "size": 8}]
    assert [each.method for each in store.asked] == ["PUT"]


@pytest.mark.parametrize(
    ("files", "code", "words"),
    [
        (["text.txt"], 2, "'text.txt' must have the form NAME=PATH"),
        (["a=x", "a=y"], 2, "'a' is given more than once"),
        (["a=missing"], 1, "cannot read missing: No such file or directory"),
        (["a=."], 1, ". is a folder: pack it into one file first, for example with tar"),
        (["../a=book.txt"], 1, "/files/0/name: '../a' must be a path inside the work folder"),
    ],
)
def test_what_cannot_be_sent_is_told(
    api: FakeApi, run: Run, tmp_path: Path, files: list[str], code: int, words: str
) -> None:
    (tmp_path / "book.txt").write_text("a book")
    result = run("submit", "report", *(part for each in files for part in ("--file", each)))
    assert result.exit_code == code
    assert words in result.stderr
    assert not api.seen


def test_a_missing_file_is_asked_for_in_the_words_of_the_command_line(api: FakeApi, run: Run) -> None:
    message = "step 'count' reads a file 'text.txt' that must come with the Job"
    fault = {"pointer": "/files", "code": "missing-file", "message": message}
    api.on("POST", "/v1/jobs", problem(422, "invalid-request", "not valid", faults=[fault]))
    told = run("submit", "report").stderr.splitlines()[-1]
    assert told == f"shardmill:   /files: {message}: give it with --file 'text.txt=PATH'"


@pytest.mark.parametrize("command", ["files", "get", "submit"])
def test_the_help_shows_how_files_are_handled(run: Run, command: str) -> None:
    shown = fine(run(command, "--help"))
    assert f"Examples:\n    shardmill {command}" in shown
    assert "--json" in shown
    assert max(len(line) for line in shown.splitlines()) <= 100


# docs/files.md


@pytest.mark.parametrize("model", [File, Partition, StepDefine])
def test_the_page_names_every_field(model: type[Model]) -> None:
    values = {"items", "when", "runIfSkipped", "inputs", "outputs", "predata", "partition", "sharding"}
    fields = {spelled(name) for name in model.model_fields}
    wanted = fields & values if model is StepDefine else fields
    assert wanted
    assert {name for name in wanted if not re.search(rf"`{name}\b", PAGE)} == set()


def test_the_page_names_the_whole_language() -> None:
    language = PAGE[PAGE.index("## Write templates") : PAGE.index("## Use secrets")]
    for word in (*KNOWN, *FILTERS, *ORDERS, "==", "!=", "in", "not in", "and", "or", "not"):
        assert f"`{word}`" in language


def test_the_page_states_the_limits() -> None:
    limits = PAGE[PAGE.index("## Limits") :]
    limits_in_code = (
        MAX_OUTPUT_BYTES,
        open_step.MAX_VALUE_BYTES,
        MAX_ITEMS,
        split.MAX_PARTS,
        MAX_UPLOAD_BYTES,
    )
    assert limits_in_code == (64 * 2**10, 200_000, 10_000, 10_000, 5 * 2**30)
    for text in ("64 KB", "200 KB", "| 10,000 |", "5 GiB"):
        assert text in limits


def test_the_definitions_of_the_page_and_the_example_are_valid() -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    texts = [f"jobName: x\n{text.replace('…', 'x')}" for text in blocks]
    assert len(texts) == 2
    for text in (*texts, (PROJECT / "examples" / "word-count.yaml").read_text()):
        found, faults = check_definition(yaml.safe_load(text))
        assert (found is not None, faults) == (True, [])
