"""JSON and YAML files: parsed values, and errors with line numbers."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shardmill.client.documents import DocumentError, load_document

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**12), 10**12)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=10),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=6), inner, max_size=4)
    ),
    max_leaves=12,
)
DOCUMENTS = st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=6), VALUES, max_size=4)


def load(folder: Path, text: str | bytes, name: str = "job.yaml") -> Any:
    file = folder / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    return load_document(file)


def load_error(folder: Path, text: str | bytes, name: str = "job.yaml") -> str:
    with pytest.raises(DocumentError) as caught:
        load(folder, text, name)
    assert "Traceback" not in caught.value.detail
    assert "\n" not in caught.value.detail
    return caught.value.detail.replace(f"{folder}/", "")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(DOCUMENTS)
def test_json_round_trips(tmp_path: Path, document: dict[str, Any]) -> None:
    assert load(tmp_path, json.dumps(document, indent="\t"), "job.json") == document
    assert load(tmp_path, json.dumps(document, indent="\t", ensure_ascii=False), "job.JSON") == document
    assert load(tmp_path, json.dumps(document), "job") == document


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(DOCUMENTS)
def test_yaml_round_trips(tmp_path: Path, document: dict[str, Any]) -> None:
    assert load(tmp_path, yaml.safe_dump(document)) == document


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2020-01-21", "2020-01-21"),
        ("2020-01-21T20:00:01Z", "2020-01-21T20:00:01Z"),
        ("2020-01-21 20:00:01.5 +01:00", "2020-01-21 20:00:01.5 +01:00"),
        ("12:30", "12:30"),
        ("190:20:30.15", "190:20:30.15"),
        ("1_000", 1000),
        ("0x10", 16),
        ("1.5", 1.5),
        ("1e3", "1e3"),
        ("yes", True),
        ("~", None),
        ("'12'", "12"),
    ],
)
def test_yaml_values_have_their_types(tmp_path: Path, text: str, value: object) -> None:
    found = load(tmp_path, f"x: {text}\n")["x"]
    assert found == value
    assert type(found) is type(value)


def test_a_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    assert load(tmp_path, b"\xef\xbb\xbfx: 1\n") == {"x": 1}
    assert load(tmp_path, b'\xef\xbb\xbf{"x": 1}', "job.json") == {"x": 1}


def test_anchors_and_merge_keys_are_resolved(tmp_path: Path) -> None:
    text = "base: &b {k: 1, l: 2}\nmine: {<<: *b, l: 3}\nagain: *b\n"
    assert load(tmp_path, text)["mine"] == {"k": 1, "l": 3}
    assert load(tmp_path, text)["again"] == {"k": 1, "l": 2}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "jobName: a\nsteps: []\njobName: b\n",
            "job.yaml, line 3: the key 'jobName' is duplicated, first in line 1",
        ),
        ("a:\n- {x: 1, y: 2,\n   x: 3}\n", "job.yaml, line 3: the key 'x' is duplicated, first in line 2"),
        ("1: a\n", "job.yaml, line 1: the key 1 is not a string; put it in quotes"),
        ("a: 1\ntrue: 2\n", "job.yaml, line 2: the key true is not a string; put it in quotes"),
        ("? [a]\n: 2\n", "job.yaml, line 1: the key here is not a string; put it in quotes"),
        ("a: &a [*a]\n", "job.yaml, line 1: this value contains itself"),
        ("", "job.yaml is empty"),
        ("# nothing\n", "job.yaml is empty"),
        ("a: [1\nb: 2\n", "job.yaml, line 2: not valid YAML: "),
        ("a: 1\n\tb: 2\n", "job.yaml, line 2: not valid YAML: "),
        (
            "a: 1\n---\nb: 2\n",
            "job.yaml, line 2: not valid YAML: the file has several documents; only one is allowed",
        ),
        ("a: !!python/object:os.system x\n", "job.yaml, line 1: not valid YAML: could not determine"),
        ("a: *missing\n", "job.yaml, line 1: not valid YAML: found undefined alias"),
        ("a: 1\nb: \x01\n", "job.yaml, line 2: not valid YAML: special characters"),
        ("a: !!int x\n", "job.yaml: "),
        (b"a: 1\nb: \xff\n", "job.yaml, line 2: not UTF-8 text"),
        ("[" * 3000, "job.yaml is nested too deeply"),
    ],
)
def test_invalid_yaml_is_rejected_with_its_line(tmp_path: Path, text: str | bytes, message: str) -> None:
    assert load_error(tmp_path, text).startswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{\n\t"a": 1,\n\t"a": 2}', "job.json, line 3: the key 'a' is duplicated, first in line 2"),
        ('{"s": [{"b": 1, "b": 1}]}', "job.json, line 1: the key 'b' is duplicated, first in line 1"),
        ('{"a": 1,\n}', "job.json, line 2: not valid JSON: "),
        ("", "job.json, line 1: not valid JSON: "),
        ("a: 1", "job.json, line 1: not valid JSON: "),
        ('{"a": NaN}', "job.json: NaN is not a JSON value"),
        ("[" * 100_000, "job.json is nested too deeply"),
        (b'{"a": "\xff"}', "job.json, line 1: not UTF-8 text"),
    ],
)
def test_invalid_json_is_rejected_with_its_line(tmp_path: Path, text: str | bytes, message: str) -> None:
    assert load_error(tmp_path, text, "job.json").startswith(message)


def test_anchors_that_expand_to_many_values_are_rejected(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 20)]
    assert "has more than" in load_error(tmp_path, "\n".join(lines))


def test_unreadable_files_are_rejected_with_a_reason(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match=r"cannot read .*nowhere\.yaml: No such file"):
        load_document(tmp_path / "nowhere.yaml")
    with pytest.raises(DocumentError, match="Is a directory"):
        load_document(tmp_path)
    with pytest.raises(DocumentError, match="cannot read"):
        load_document("a\0b")


@pytest.mark.parametrize("text", [b"x: 1\n", b'\t{"x": 1}\n', b"{x: 1}\n"])
def test_a_document_is_read_from_standard_input(monkeypatch: pytest.MonkeyPatch, text: bytes) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert load_document("-") == {"x": 1}


def test_words_for_booleans_are_strings_as_keys(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("notify: [{on: [failure], off: no, yes: 1}]\n")
    assert load_document(tmp_path / "job.yaml") == {"notify": [{"on": ["failure"], "off": False, "yes": 1}]}
