"""Paths in a work folder, and the selection of outputs."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from shardmill.model.files import File, fits, leaves_work_folder, name_fault
from shardmill.worker.files.safe_paths import (
    MAX_ATTRIBUTES_BYTES,
    MissingFile,
    TransferError,
    UnsafePath,
    file_state,
    matches,
    open_inside,
    select_outputs,
    target,
)

WORDS = st.sampled_from(["a", "b", "..", ".", "", "link", "C:", "x\0y", "\\", "~"])
NAMES = st.lists(WORDS, min_size=1, max_size=5).map("/".join)


@given(NAMES)
def test_a_target_is_always_inside_the_folder(name: str) -> None:
    with tempfile.TemporaryDirectory() as top:
        folder, outside = Path(top, "work"), Path(top, "outside")
        folder.mkdir()
        outside.mkdir()
        (folder / "link").symlink_to(outside)
        try:
            path = target(folder, name)
        except TransferError:
            assert leaves_work_folder(name) or "link" in name.split("/")
        else:
            assert not leaves_work_folder(name)
            assert path.resolve().is_relative_to(folder.resolve())
            assert path.parent.is_dir()
        assert list(outside.iterdir()) == []
        assert sorted(each.name for each in Path(top).iterdir()) == ["outside", "work"]


def test_files_and_folders_do_not_replace_each_other(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    (tmp_path / "d").mkdir()
    with pytest.raises(TransferError, match="'a' is not a folder"):
        target(tmp_path, "a/b")
    with pytest.raises(TransferError, match="a folder has this name"):
        target(tmp_path, "d")


def test_symlinks_inside_the_folder_are_followed_and_others_are_rejected(tmp_path: Path) -> None:
    work, secret = tmp_path / "work", tmp_path / "secret"
    (work / "sub").mkdir(parents=True)
    secret.mkdir()
    (secret / "key").write_text("key")
    (work / "sub/real").write_text("real")
    (work / "inside").symlink_to("sub/real")
    (work / "out").symlink_to(secret / "key")
    (work / "outdir").symlink_to(secret)
    (work / "self").symlink_to(".")
    with open_inside(work, "inside") as file:
        assert file.read() == b"real"
    for name in ("out", "outdir/key", "outdir/none", "self"):
        with pytest.raises(UnsafePath, match="link out of the work folder"):
            open_inside(work, name)
    # The message must not reveal the names of files outside of the folder.
    with pytest.raises(UnsafePath, match=r"^output 'outdir' is not allowed"):
        select_outputs([File(name="outdir/*")], work)


def test_a_symlink_loop_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(TransferError, match="'a'"):
        open_inside(tmp_path, "a")


def test_only_regular_files_are_outputs(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        with pytest.raises(TransferError, match=f"^output '{name}' is not a regular file$"):
            select_outputs([File(name=name)], tmp_path)


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/c").write_text("x")
    before = len(os.listdir("/proc/self/fd"))
    open_inside(tmp_path, "a/b/c").close()
    for name in ("a/b", "a/none", "a"):
        with pytest.raises(TransferError, match=name):
            open_inside(tmp_path, name)
    assert len(os.listdir("/proc/self/fd")) == before


def test_patterns_match_files_in_order(tmp_path: Path) -> None:
    for name in ("part-2.csv", "part-1.csv", "other.txt", "odd[1].txt"):
        (tmp_path / name).write_text("x")
    (tmp_path / "part-d.csv").mkdir()
    assert matches(tmp_path, "part-*.csv") == ["part-1.csv", "part-2.csv"]
    assert matches(tmp_path, "odd[1].txt") == ["odd[1].txt"]
    assert matches(tmp_path, "./other.txt") == ["other.txt"]
    assert matches(tmp_path, "none-*") == []


def names(folder: Path, *files: dict[str, Any]) -> list[tuple[str, str]]:
    found = select_outputs([File.model_validate(file) for file in files], folder)
    return [(output.path, output.name) for output in found]


def test_outputs_are_stored_under_their_upload_name(tmp_path: Path) -> None:
    for name in ("a", "b", "empty"):
        (tmp_path / name).write_text("" if name == "empty" else name)
    assert names(tmp_path, {"name": "a", "uploadName": "z/a"}, {"name": "b"}) == [("a", "z/a"), ("b", "b")]
    assert names(tmp_path, {"name": "[ab]"}, {"name": "a"}) == [("a", "a"), ("b", "b")]
    assert names(tmp_path, {"name": "none", "optional": True}, {"name": "empty"}) == [("empty", "empty")]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([{"name": "none"}], "output 'none' is missing"),
        ([{"name": "none-*"}], "output 'none-*' is missing"),
        ([{"name": "dangling"}], "output 'dangling' is missing"),
        (
            [{"name": "empty", "nonzero": True}],
            "output 'empty' is empty, but the step requires content (nonzero)",
        ),
        (
            [{"name": "[ab]", "uploadName": "z"}],
            "output '[ab]' matches 2 files, which cannot all be stored as 'z'",
        ),
        ([{"name": "a"}, {"name": "b", "uploadName": "a"}], "'a' and 'b' would both be stored as 'a'"),
    ],
)
def test_invalid_outputs_are_rejected_with_a_reason(
    tmp_path: Path, files: list[dict[str, Any]], message: str
) -> None:
    for name in ("a", "b", "empty"):
        (tmp_path / name).write_text("" if name == "empty" else name)
    (tmp_path / "dangling").symlink_to("nowhere")
    with pytest.raises(TransferError) as raised:
        names(tmp_path, *files)
    assert message in str(raised.value)


def test_attributes_are_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    (tmp_path / "a.attr").write_text('{"type": "fasta", "n": 3}')
    [output] = select_outputs([File(name="a", attrfile="a.attr")], tmp_path)
    assert output.attributes == {"type": "fasta", "n": 3}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "'a.attr' is missing"),
        ("{", "is not JSON"),
        ("[1]", "must be a JSON object"),
        ('{"a": NaN}', "cannot be stored: /a"),
        (json.dumps({"a": "x" * MAX_ATTRIBUTES_BYTES}), "has more than 65536 bytes"),
    ],
)
def test_invalid_attributes_are_rejected_with_a_reason(
    tmp_path: Path, content: str | None, message: str
) -> None:
    (tmp_path / "a").write_text("x")
    if content is not None:
        (tmp_path / "a.attr").write_text(content)
    with pytest.raises(TransferError) as raised:
        select_outputs([File(name="a", attrfile="a.attr")], tmp_path)
    assert str(raised.value).startswith("the attrfile of output 'a': 'a.attr'")
    assert message in str(raised.value)


def test_a_missing_file_raises_missing_file(tmp_path: Path) -> None:
    with pytest.raises(MissingFile):
        open_inside(tmp_path, "none/at/all")


def test_outputs_that_exceed_a_report_are_rejected_before_the_upload(tmp_path: Path) -> None:
    for number in range(1_001):
        (tmp_path / f"f{number}").touch()
    with pytest.raises(TransferError, match="the task has 1001 output files; the maximum is 1000"):
        select_outputs([File(name="f*")], tmp_path)
    (tmp_path / "attr").write_text(json.dumps({"a": "x" * 1_000}))
    with pytest.raises(TransferError, match=r"of 500 outputs have \d+ bytes; the maximum is 300000"):
        select_outputs([File(name=f"f{number}", attrfile="attr") for number in range(500)], tmp_path)


@pytest.mark.parametrize("name", [b"f\xff", b"f\x01", b"f\n"])
def test_invalid_names_are_rejected_with_a_printable_message(tmp_path: Path, name: bytes) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).touch()
    with pytest.raises(TransferError, match="must not contain control characters") as raised:
        select_outputs([File(name="f*")], tmp_path)
    assert str(raised.value).isascii()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("./x", "must not contain './' or '//', or end with '/'"),
        ("a//b", "must not contain './' or '//', or end with '/'"),
        ("a/", "must not contain './' or '//', or end with '/'"),
        ("a\nb", "control"),
        ("x" * 801, "800"),
    ],
)
@pytest.mark.parametrize("field", ["name", "uploadName", "attrfile"])
def test_names_that_are_not_canonical_are_rejected(field: str, name: str, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        File.model_validate({"name": "fine", field: name})


@given(st.text("ab[]*?.", min_size=1).filter(lambda name: not name_fault(name)))
def test_a_name_always_matches_itself(name: str) -> None:
    assert fits(name, name)


def test_a_pattern_matches_outputs_but_not_unchanged_inputs(tmp_path: Path) -> None:
    for name in ("in.txt", "edited.txt"):
        (tmp_path / name).write_text("downloaded")
    inputs = {name: file_state(tmp_path / name) for name in ("in.txt", "edited.txt")}
    with pytest.raises(MissingFile, match=r"output '\*.txt' is missing"):
        select_outputs([File(name="*.txt")], tmp_path, inputs)
    (tmp_path / "edited.txt").write_text("by the task")
    (tmp_path / "out.txt").write_text("made")
    found = select_outputs([File(name="*.txt")], tmp_path, inputs)
    assert [output.path for output in found] == ["edited.txt", "out.txt"]
    assert [output.path for output in select_outputs([File(name="in.txt")], tmp_path, inputs)] == ["in.txt"]
