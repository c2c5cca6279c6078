"""Templates: names of values, never code."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmill.model.template import TemplateError, check, names, render, render_value

CONTEXT: dict[str, Any] = {
    "params": {"date": "2020-01-21", "n": 3, "flag": True, "none": None, "list": [1, "ü"], "a.b": "dotted"},
    "shard": {"index": 9, "total": 12},
    "job": {"name": "j", "trigger": "t", "id": "i", "dataTime": None},
    "step": {"name": "s"},
    "task": {"id": "i_0_9"},
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ params.date }}", "2020-01-21"),
        ("{{params.date}}-{{  shard.index\n}}", "2020-01-21-9"),
        ("{{ params.n }} {{ params.flag }} {{ params.none }}", "3 true null"),
        ("{{ params.list }}", '[1,"ü"]'),
        ("{{ params.a.b }}", "dotted"),
        ("{{ job.name }}/{{ job.trigger }}/{{ step.name }}/{{ task.id }}", "j/t/s/i_0_9"),
        ("literal } }} { $x ${y} %s", "literal } }} { $x ${y} %s"),
        ('{"a":{"b":1}}', '{"a":{"b":1}}'),
    ],
)
def test_values_are_filled_in(text: str, expected: str) -> None:
    assert render(text, CONTEXT, quote=False) == expected


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("{{ params.date", "never closed"),
        ("a {{", "never closed"),
        ("{{}}", "names nothing"),
        ("{{ \n }}", "names nothing"),
        ("{{ a b }}", "is not a name"),
        ("{{ params }}", "is not a name"),
        ("{{ params.x() }}", "is not a name"),
        ("{{ params.date | upper }}", "is not a name"),
        ("{{ {{ params.date }} }}", "is not a name"),
    ],
)
def test_bad_braces_are_faults_everywhere(text: str, part: str) -> None:
    assert part in check(text, {"date"})[0]
    with pytest.raises(TemplateError, match=part):
        render(text, CONTEXT, quote=False)


def test_unknown_names_are_faults() -> None:
    assert check("{{ params.date }} {{ shard.index }}", {"date"}) == []
    assert check("{{ params.x }} {{ params.x }}", {"date"}) == [
        "unknown parameter 'x': give it a value in params"
    ]
    assert "unknown name 'os.environ'" in check("{{ os.environ }}", set())[0]
    assert "unknown name 'shard.__class__'" in check("{{ shard.__class__ }}", set())[0]
    with pytest.raises(TemplateError, match="has no value here"):
        render("{{ pack.start }}", CONTEXT, quote=False)


def test_names_are_listed_in_order() -> None:
    assert names("{{ b.c }} {{ }} {{ a.b }} {{ b.c }} {{") == ["b.c", "a.b", "b.c"]


def test_values_inside_of_objects_are_filled_in() -> None:
    nested = {"{{ x": ["{{ params.n }}", 5, None, {"a": "{{ shard.total }}"}]}
    assert render_value(nested, CONTEXT, quote=False) == {"{{ x": ["3", 5, None, {"a": "12"}]}


@given(st.text())
def test_any_text_is_checked_and_without_braces_untouched(text: str) -> None:
    check(text, set())
    if "{{" not in text:
        assert render(text, {}, quote=False) == text
        assert render(text, {}, quote=True) == text


@given(st.text())
def test_a_value_is_never_read_as_a_template(value: str) -> None:
    assert render("<{{ params.v }}>", {"params": {"v": value}}, quote=False) == f"<{value}>"


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5))
def test_what_is_no_text_is_put_in_as_json(value: Any) -> None:
    rendered = render("{{ params.v }}", {"params": {"v": value}}, quote=False)
    assert rendered == value if isinstance(value, str) else json.loads(rendered) == value
