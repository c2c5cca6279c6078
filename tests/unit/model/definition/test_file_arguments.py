"""References `@name` to files in the arguments of a command."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmill.model.definition.file_arguments import (
    SEPARATORS,
    escape,
    escape_unknown,
    expand,
    unknown_names,
)
from shardmill.model.definition.validation import check_definition
from shardmill.model.files import fits, has_wildcard

FILES = ["reads.fna", "ref.db", "part-0.csv", "part-1.csv", "my file.csv", "a@b.csv", "x,y"]

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0{}"), max_size=30)
around = st.text("ab-=,: '", max_size=6)
names = st.text("abc.-_", min_size=1, max_size=8)


def paths(name: str) -> list[str] | None:
    if name in FILES:
        return [name]
    return [each for each in FILES if fits(each, name)] if has_wildcard(name) else None


@pytest.mark.parametrize(
    ("word", "words"),
    [
        ("@reads.fna", ["reads.fna"]),
        ("-input=@reads.fna", ["-input=reads.fna"]),
        ("-i@reads.fna", ["-ireads.fna"]),
        ("@reads.fna,@ref.db:3", ["reads.fna,ref.db:3"]),
        ("cat @reads.fna > all", ["cat reads.fna > all"]),
        ("@my file.csv", ["my file.csv"]),
        ("@x,y", ["x,y"]),
        ("--in=@a@b.csv", ["--in=a@b.csv"]),
        ("--in=@a@@b.csv", ["--in=a@b.csv"]),
        ("@part-*.csv", ["part-0.csv", "part-1.csv"]),
        ("--in=@part-*.csv", ["--in=part-0.csv", "--in=part-1.csv"]),
        ("@part-?.csv:@part-1.csv", ["part-0.csv:part-1.csv", "part-1.csv:part-1.csv"]),
        ("@none-*.csv", []),
        ("ops@@example.com", ["ops@example.com"]),
        ("@@reads.fna", ["@reads.fna"]),
        ("@@@reads.fna", ["@reads.fna"]),
        ('cat "$@" > all', ['cat "$@" > all']),
        ("at @ the end @", ["at @ the end @"]),
        ("@", ["@"]),
        ("", [""]),
    ],
)
def test_a_reference_becomes_the_path_of_the_file(word: str, words: list[str]) -> None:
    assert expand(word, paths) == words


@pytest.mark.parametrize("word", ["-input=@raeds.fna", "ops@example.com", "@reads.fna,@other", "@ref.db2"])
def test_a_name_that_is_not_a_file_is_reported(word: str) -> None:
    with pytest.raises(LookupError):
        expand(word, paths)


@given(text=texts)
def test_an_escaped_text_stays_as_it_is(text: str) -> None:
    assert expand(escape(text), lambda _: ["path"]) == [text]


@given(name=names, before=around, after=st.sampled_from(["", *sorted(SEPARATORS - {"@"})]), more=around)
def test_a_file_is_found_at_any_place_of_a_word(name: str, before: str, after: str, more: str) -> None:
    word = f"{before}@{name}{after}{more if after else ''}"
    assert expand(word, lambda each: ["PATH"] if each == name else None) == [word.replace(f"@{name}", "PATH")]


@given(text=texts, files=st.lists(names, max_size=3))
def test_a_word_that_is_not_a_file_is_plain_after_escape(text: str, files: list[str]) -> None:
    escaped = escape_unknown(text, files, split=False)
    assert list(unknown_names([escaped], files)) == []
    assert expand(escaped, lambda name: [f"@{name}"] if name in files else None) == expand(
        text, lambda name: [f"@{name}"]
    )


@given(words=st.lists(texts, max_size=4), files=st.lists(names, max_size=3))
def test_words_are_escaped_one_by_one(words: list[str], files: list[str]) -> None:
    escaped = escape_unknown(shlex.join(words), files, split=True)
    assert shlex.split(escaped) == [escape_unknown(word, files, split=False) for word in words]


@pytest.mark.parametrize(
    ("arguments", "files", "unknown"),
    [
        ("-i @reads.fna -o out", ["reads.fna"], []),
        ("-i @other", ["reads.fna"], ["other"]),
        ("'@my file.csv'", ["my file.csv"], []),
        ("@part-*.csv", ["part-{{ shard.index }}.csv"], []),
        ("@part-0.csv", ["part-{{ shard.index }}.csv"], []),
        ("@part-0.csv", ["part-*.csv"], []),
        ("@part-*.csv", ["part-0.csv"], []),
        ("@other-*.csv", ["part-*.csv"], ["other-*.csv"]),
        ("@part-*.csv", ["*/log"], ["part-*.csv"]),
        ("@{{ params.file }}", ["reads.fna"], []),
        ("@{{ params.file }}.csv", ["reads.fna"], ["{{ … }}.csv"]),
        ("@{{ params.file }}", [], ["{{ … }}"]),
        ("--mail {{ params.mail | default('a@b') }}", [], []),
        (["--in=@reads.fna", "ops@host:/x"], ["reads.fna"], ["host"]),
        ("'@open", [], []),
    ],
)
def test_unknown_names_are_found_before_templates_are_rendered(
    arguments: Any, files: Sequence[str], unknown: Sequence[str]
) -> None:
    assert list(unknown_names(arguments, files)) == unknown


def faults(command: dict[str, Any], **files: Any) -> list[tuple[str, str, str]]:
    document = {"jobName": "awe", "steps": [{"stepName": "prep", "command": command, **files}]}
    return [(each.pointer, each.code, each.message) for each in check_definition(document)[1]]


def test_a_reference_to_a_file_that_the_step_does_not_have_is_rejected_when_saved() -> None:
    files = {
        "inputs": [{"name": "reads.fna"}],
        "predata": [{"name": "h_sapiens.db", "url": "https://x/y"}],
        "outputs": [{"name": "prep.fna"}, {"name": "part-*"}],
    }
    ok = "-input=@reads.fna -output=@prep.fna -index=@h_sapiens.db --part @part-1 --mail ops@@example.com"
    assert faults({"name": "awe_preprocess.pl", "args": ok}, **files) == []
    assert faults({"name": "x", "args": "-i=@raeds.fna --to ops@example.com"}, **files) == [
        (
            "/steps/0/command/args",
            "unknown-file",
            "@raeds.fna is not a file of this step; did you mean 'reads.fna'?",
        ),
        (
            "/steps/0/command/args",
            "unknown-file",
            "@example.com is not a file of this step; write @@ for a plain @",
        ),
    ]
    assert faults({"name": "x", "argsArray": ["ok", "@part-*"]}, **files) == [
        (
            "/steps/0/command/argsArray/1",
            "bad-value",
            "@part-* is a pattern of outputs, which do not exist yet; name one file",
        )
    ]


@pytest.mark.parametrize("command", [{"name": "x", "args": 3}, {"name": "x", "argsArray": [3, {}]}, "x"])
def test_arguments_that_are_not_text_are_not_references(command: Any) -> None:
    assert {code for _, code, _ in faults(command)} == {"bad-type"}
