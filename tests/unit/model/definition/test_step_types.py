"""The content of each step type: valid contents, and faults with their pointer and code."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from shardmill.model.definition import step_types
from shardmill.model.definition.step_types import ContentError, content_faults, render_content
from shardmill.model.definition.validation import check_definition
from support.paths import PROJECT


@pytest.mark.parametrize(
    ("kind", "content", "words"),
    [
        ("java", "app.jar --x 1", ["-jar", "app.jar", "--x", "1"]),
        ("java", "com.acme.Main a 'b c'", ["com.acme.Main", "a", "b c"]),
        ("java", "-cp lib/* com.acme.Main a", ["-cp", "lib/*", "com.acme.Main", "a"]),
        (
            "java",
            {"jar": "a.jar", "args": ["x y"], "jvmArgs": ["-Xmx1g"]},
            ["-Xmx1g", "-jar", "a.jar", "x y"],
        ),
        ("java", {"mainClass": "M", "classpath": ["a", "b/*"]}, ["-cp", "a:b/*", "M"]),
        ("java", {"mainClass": "M", "classpath": "a:b"}, ["-cp", "a:b", "M"]),
        ("mapreduce", "wc.jar count /in /out", ["wc.jar", "count", "/in", "/out"]),
        ("mapreduce", {"jar": "wc.jar", "mainClass": "Count", "args": ["/in"]}, ["wc.jar", "Count", "/in"]),
        ("docker", "alpine echo 'a b'", ("alpine", ["echo", "a b"])),
        (
            "docker",
            {"image": "alpine:3", "command": "echo 'a b'", "args": ["c d"]},
            ("alpine:3", ["echo", "a b", "c d"]),
        ),
        (
            "docker",
            {"image": "r.io:5000/a/b@sha256:0f", "command": ["sh", "-c", "x"]},
            ("r.io:5000/a/b@sha256:0f", ["sh", "-c", "x"]),
        ),
        ("docker", "alpine", ("alpine", [])),
    ],
)
def test_a_content_becomes_its_command_line(kind: str, content: Any, words: Any) -> None:
    assert getattr(step_types, kind)(content) == words
    assert content_faults(kind, content) == ()


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("shell", "echo {{ params.x }}"),
        ("python", "{{ params.module }}:main"),
        ("java", "{{ params.jar }} 'x{{ params.y }}'"),
        ("docker", "{{ params.image }} sh"),
        ("docker", "{{params.image}}"),
        ("docker", {"image": "registry/{{ params.image }}"}),
        ("hive", {"query": "select 1", "hiveconf": {"mapreduce.job.reduces": 3, "x": True}}),
        ("hive", {"file": "q.hql"}),
        ("http", "https://{{ params.host }}/x"),
        (
            "http",
            {
                "url": "{{ params.url }}",
                "method": "{{ params.m }}",
                "expectedStatus": ["{{ params.s }}", 200],
            },
        ),
        (
            "http",
            {"url": "http://h:8080/", "headers": {"X-A": "b"}, "body": {"a": [1]}, "expectedStatus": "2xx"},
        ),
        ("lambda", "{{ params.function }}"),
        ("lambda", {"function": "arn:aws:lambda:eu-west-1:123456789012:function:f:live", "payload": [1]}),
        ("noop", {"whatever": 1}),
    ],
)
def test_valid_contents_have_no_faults(kind: str, content: Any) -> None:
    assert content_faults(kind, content) == ()


WRONG: list[tuple[str, Any, tuple[str | int, ...], str]] = [
    ("shell", {"a": 1}, (), "bad-type"),
    ("python", "report", (), "bad-value"),
    ("python", {"a": 1}, (), "bad-type"),
    ("java", "app.jar 'open", (), "bad-value"),
    ("java", "  ", (), "bad-value"),
    ("java", {}, (), "missing-field"),
    ("java", {"jar": "a.jar", "mainClass": "M"}, ("mainClass",), "both-spellings"),
    ("java", {"jar": "a.jar", "classpath": "b"}, ("classpath",), "both-spellings"),
    ("java", {"jar": "a.jar", "args": "x"}, ("args",), "bad-type"),
    ("java", {"jar": "a.jar", "args": ["x", 1]}, ("args", 1), "bad-type"),
    ("java", {"jar": "a.jar", "arg": ["x"]}, ("arg",), "unknown-field"),
    ("java", {"jar": " "}, ("jar",), "bad-type"),
    ("java", {"mainClass": "M", "classpath": [1]}, ("classpath",), "bad-type"),
    ("mapreduce", {"mainClass": "M"}, ("jar",), "missing-field"),
    ("mapreduce", "'", (), "bad-value"),
    ("hive", {"hiveconf": {}}, (), "missing-field"),
    ("hive", {"query": "a", "file": "b"}, ("file",), "both-spellings"),
    ("hive", {"query": "a", "hiveconf": {"a=b": "c"}}, ("hiveconf", "a=b"), "bad-name"),
    ("hive", {"query": "a", "hiveconf": {"a": []}}, ("hiveconf", "a"), "bad-type"),
    ("docker", "--privileged alpine", (), "bad-value"),
    ("docker", {"image": "two words"}, ("image",), "bad-value"),
    ("docker", {"command": "x"}, ("image",), "missing-field"),
    ("docker", {"image": "a", "command": "'"}, ("command",), "bad-value"),
    ("docker", {"image": "a", "command": 1}, ("command",), "bad-type"),
    ("http", "ftp://example.com/", (), "bad-value"),
    ("http", "example.com", (), "bad-value"),
    ("http", "http://h:99999/", (), "bad-value"),
    ("http", "http://u:p@h/", (), "bad-value"),
    ("http", "http://h/a\r\nX: y", (), "bad-value"),
    ("http", {"method": "GET"}, ("url",), "missing-field"),
    ("http", {"url": "http://h/", "method": "GET /"}, ("method",), "bad-value"),
    ("http", {"url": "http://h/", "headers": {"a b": "c"}}, ("headers", "a b"), "bad-name"),
    ("http", {"url": "http://h/", "headers": {"Host": "c"}}, ("headers", "Host"), "bad-name"),
    ("http", {"url": "http://h/", "headers": {"a": 1}}, ("headers", "a"), "bad-type"),
    ("http", {"url": "http://h/", "headers": {"a": "x\r\ny: z"}}, ("headers", "a"), "bad-value"),
    ("http", {"url": "http://h/", "expectedStatus": 999}, ("expectedStatus",), "bad-value"),
    ("http", {"url": "http://h/", "expectedStatus": []}, ("expectedStatus",), "bad-value"),
    ("http", {"url": "http://h/", "expectStatus": 200}, ("expectStatus",), "unknown-field"),
    ("lambda", "no such name!", (), "bad-value"),
    ("lambda", {"payload": {}}, ("function",), "missing-field"),
]


@pytest.mark.parametrize(("kind", "content", "path", "code"), WRONG)
def test_an_invalid_content_is_rejected_on_saving_and_by_the_worker(
    kind: str, content: Any, path: tuple[str | int, ...], code: str
) -> None:
    assert [(at, each) for at, each, _ in content_faults(kind, content)] == [(path, code)]
    with pytest.raises(ContentError):
        getattr(step_types, "lambda_" if kind == "lambda" else kind)(content)


def test_every_fault_points_into_the_definition() -> None:
    content = {"url": "x", "headers": {"Host": "a"}, "expectStatus": 1}
    _, faults = check_definition(
        {"jobName": "j", "steps": [{"stepName": "a", "type": "http", "content": content}]}
    )
    assert [(each.pointer.removeprefix("/steps/0/content"), each.code) for each in faults] == [
        ("/expectStatus", "unknown-field"),
        ("/headers/Host", "bad-name"),
        ("/url", "bad-value"),
    ]
    assert "did you mean 'expectedStatus'?" in faults[0].message


@pytest.mark.parametrize(
    ("step", "pointer", "code"),
    [
        ({"type": "docker", "command": {"name": "x"}}, "/steps/0/command/dockerimage", "missing-field"),
        (
            {"type": "docker", "command": {"name": "x", "dockerimage": "-v"}},
            "/steps/0/command/dockerimage",
            "bad-value",
        ),
        ({"command": {"name": "x", "dockerimage": "-v"}}, "/steps/0/command/dockerimage", "bad-value"),
    ],
)
def test_an_invalid_image_of_a_command_is_rejected(step: dict[str, Any], pointer: str, code: str) -> None:
    _, faults = check_definition({"jobName": "j", "steps": [{"stepName": "a", **step}]})
    assert [(each.pointer, each.code) for each in faults] == [(pointer, code)]


@pytest.mark.parametrize("value", ["a b", "'", "--evil", "$(x)", ""])
def test_a_value_stays_one_word_where_a_string_is_split(value: str) -> None:
    context = {"params": {"v": value}}
    for kind in sorted(step_types.WORD_TYPES):
        words = getattr(step_types, kind)(
            render_content(kind, "image-or-class.x {{ params.v }} end", context)
        )
        assert (words[1] if kind == "docker" else words)[-2:] == [value, "end"]
    content = {"image": "a", "command": "sh -c {{ params.v }}", "args": ["{{ params.v }}"]}
    assert step_types.docker(render_content("docker", content, context)) == ("a", ["sh", "-c", value, value])


def test_a_value_is_not_quoted_elsewhere() -> None:
    context = {"params": {"v": "it's"}}
    assert render_content("hive", {"file": "{{ params.v }}", "query": 7}, context) == {
        "file": "it's",
        "query": 7,
    }
    assert render_content("java", {"args": ["{{ params.v }}"]}, context) == {"args": ["it's"]}
    assert render_content("shell", "echo {{ params.v }}", context) == "echo 'it'\"'\"'s'"


def test_rendered_strings_are_not_rendered_again() -> None:
    """A placeholder that reaches the worker came from a value, and is validated like any other text."""
    for kind, content in (
        ("python", "{{x"),
        ("http", "{{x"),
        ("lambda", "{{ x }}"),
        ("docker", {"image": "- {{"}),
    ):
        with pytest.raises(ContentError):
            getattr(step_types, "lambda_" if kind == "lambda" else kind)(content)


@pytest.mark.parametrize("path", sorted((PROJECT / "examples").glob("*.yaml")), ids=str)
def test_the_examples_are_valid(path: Path) -> None:
    define, faults = check_definition(yaml.safe_load(path.read_text()))
    assert (define is not None, faults) == (True, [])
