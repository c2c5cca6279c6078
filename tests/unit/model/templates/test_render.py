"""Rendering and validation of templates."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.model.templates.render import (
    KNOWN,
    TemplateError,
    check,
    evaluate,
    is_single_placeholder,
    names,
    render,
    render_value,
    truth,
)

CONTEXT: dict[str, Any] = {
    "params": {"date": "2020-01-21", "n": 3, "flag": True, "none": None, "list": [1, "ü"], "a.b": "dotted"},
    "shard": {"index": 9, "total": 12},
    "job": {"name": "j", "trigger": "t", "id": "i", "dataTime": None},
    "step": {"name": "s"},
    "task": {"id": "i_0_9"},
    "steps": {"list": {"output": {"files": ["a b", "c"], "on": "False"}}},
    "item": {"key": "k"},
}

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)
WRITTEN = st.lists(
    st.sampled_from(["{{", "}}", "{", "'", '"', "\\", "params.n", "item", " ", "|", "json", "==", "1", "x"])
).map("".join)


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
        ("{{ params.date | json }}", '"2020-01-21"'),
        ("{{ params.list[1] | upper }}{{ params.x.y | default('-') }}", "Ü-"),
        ("{{ shard.index == 9 and params.flag }}", "true"),
        ("{{ steps.list.output.files }}: {{ steps.list.output.files | length }}", '["a b","c"]: 2'),
        ("{{ item }} {{ item.key }}", '{"key":"k"} k'),
        ("""{{ '}}' }}{{ "{{ it's }}" }}{{ 'it\\'s' }}""", "}}{{ it's }}it's"),
        ("it's {{ params.n }} o'clock", "it's 3 o'clock"),
    ],
)
def test_values_are_rendered(text: str, expected: str) -> None:
    assert render(text, CONTEXT, quote=False) == expected


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("{{ params.date", "not closed"),
        ("a {{", "not closed"),
        ("{{}}", "is empty"),
        ("{{ \n }}", "is empty"),
        ("{{ a b }}", "is neither a name"),
        ("{{ params }}", "is neither a name"),
        ("{{ params.x() }}", "is neither a name"),
        ("{{ params.date | shout }}", "unknown filter 'shout': the filters are default"),
        ("{{ params.date == }}", "it ends unexpectedly"),
        ("{{ params.date == 'x }} y", "the quote ' inside it is not closed"),
        ('{{ params.date == "x }}', 'the quote " inside it is not closed'),
        ("{{ 'x' }", "not closed"),
        (f"{{{{ {'(' * 21} params.date {')' * 21} }}}}", "nested deeper than 20 levels"),
        (f"{{{{ '{'x' * 1000}' }}}}", "it has 1002 characters; at most 1000"),
        ("{{ {{ params.date }} }}", "is neither a name"),
    ],
)
def test_malformed_placeholders_are_faults(text: str, part: str) -> None:
    assert part in check(text, {"date"})[0]
    with pytest.raises(TemplateError, match=part):
        render(text, CONTEXT, quote=False)


def test_unknown_names_are_faults() -> None:
    assert check("{{ params.date }} {{ shard.index }}", {"date"}) == []
    assert check("{{ params.x }} {{ params.x }}", {"date"}) == ["unknown parameter 'x': define it in params"]
    assert "unknown name 'os.environ'" in check("{{ os.environ }}", set())[0]
    assert "unknown name 'shard.__class__'" in check("{{ shard.__class__ }}", set())[0]
    with pytest.raises(TemplateError, match="has no value here"):
        render("{{ pack.start }}", CONTEXT, quote=False)


def test_each_fault_is_reported_once() -> None:
    text = "{{ params.x or params.x | eval }} {{ params.x == params.y }} {{ params.x }} {{ item }} {{"
    found = check(text, {"date"})
    assert len(found) == 5
    assert "unknown filter 'eval'" in found[0]
    assert found[1:4] == [
        "unknown parameter 'x': define it in params",
        "unknown parameter 'y': define it in params",
        "item is only available in a step with items",
    ]
    assert "not closed" in found[4]


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("{{ params.a.b.c }}", {"a"}),
        ("{{ params.a.b.c }}", {"a.b"}),
        ("{{ params.a.b[0] }}", {"a.b"}),
        ("{{ params['a.b'] }}", {"a.b"}),
        ("{{ params.x | default(1) }}", set()),
        ("{{ (params.x == params.y) | default(false) }}", set()),
        ("{{ params.x | lower | default('') }}", set()),
        ("{{ shard['index'] }}", set()),
    ],
)
def test_known_and_optional_parameters_are_accepted(text: str, known: set[str]) -> None:
    assert check(text, known) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{{ params['a'].b }}", "unknown parameter 'a': define it in params"),
        ("{{ params.x == params.y | default(1) }}", "unknown parameter 'x': define it in params"),
        ("{{ steps.x.output[0] }}", "step 'x' is not upstream of this one: add it to dependentSteps"),
        (
            "{{ steps.x.output | default(1) }}",
            "step 'x' is not upstream of this one: add it to dependentSteps",
        ),
        ("{{ item.key | default(1) }}", "item is only available in a step with items"),
    ],
)
def test_unavailable_names_are_faults(text: str, message: str) -> None:
    assert check(text, {"a.b"}, steps={"list"}) == [message]


@pytest.mark.parametrize(
    "text", ["steps.list", "steps.list.notes", "job.name.x", "params[0]", "steps[0].output"]
)
def test_names_that_do_not_exist_are_faults(text: str) -> None:
    (found,) = check(f"{{{{ {text} }}}}", {"list"}, steps={"list"}, item=True)
    assert found.startswith(f"unknown name '{text}': use params.NAME, steps.NAME.output, ")
    assert all(name in found for name in KNOWN)


def test_outputs_and_items_are_available_where_they_are_allowed() -> None:
    assert check("{{ steps.list.output.a[0] }} {{ steps['list'].output }}", set(), steps={"list"}) == []
    assert check("{{ item }} {{ item.a }} {{ item[0] in item['b c'] }}", set(), item=True) == []


def test_names_are_listed_in_order() -> None:
    assert names("{{ b.c }} {{ }} {{ a.b }} {{ b.c }} {{") == ["b.c", "a.b", "b.c"]
    assert names("{{ item[0].x == params.date.y | default('item.z') or not pack['start'] }}") == [
        *("item", "params.date", "pack.start")
    ]
    assert names("{{ steps.a-b.output.x[0] | json }}") == ["steps.a-b.output"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ params.list }}", True),
        (" \n{{params.list}}\t", True),
        ("{{ '}} {{' }}", True),
        ("{{ a b }}", True),
        ("{{ }}", True),
        ("", False),
        ("text", False),
        ("{{ params.list", False),
        ("{{ params.list }}.", False),
        ("x {{ params.list }}", False),
        ("{{ params.n }}{{ params.n }}", False),
        ("{{ params.n }} {{", False),
    ],
)
def test_a_single_placeholder_is_recognised(text: str, expected: bool) -> None:
    assert is_single_placeholder(text) is expected


@given(JSON)
def test_the_value_of_a_single_placeholder_keeps_its_type(value: Any) -> None:
    found = evaluate(" {{ params.v }}\n", {"params": {"v": value}})
    assert found == value
    assert type(found) is type(value)


@given(TEXTS | st.integers() | st.booleans() | st.none() | st.floats(allow_nan=False, allow_infinity=False))
def test_a_literal_is_its_own_value(value: Any) -> None:
    hole = f"{{{{ {json.dumps(value, ensure_ascii=False)} }}}}"
    assert evaluate(hole, {}) == value
    assert is_single_placeholder(hole)


@pytest.mark.parametrize(
    "text", ["", "5", "x{{ params.n }}", "{{ params.n }}.", "{{ params.n }}{{ params.n }}"]
)
def test_only_a_single_placeholder_can_be_evaluated(text: str) -> None:
    with pytest.raises(TemplateError, match=r"must be a single .* expression without other text"):
        evaluate(text, CONTEXT)


def test_a_malformed_placeholder_cannot_be_evaluated() -> None:
    with pytest.raises(TemplateError, match="is neither a name"):
        evaluate("{{ a b }}", CONTEXT)
    with pytest.raises(TemplateError, match="not closed"):
        truth("{{ params.n", CONTEXT)


@pytest.mark.parametrize("value", [None, False, 0, 0.0, "", [], {}, "false", "False", "FALSE"])
def test_empty_values_and_the_string_false_are_false(value: Any) -> None:
    assert truth("{{ params.v }}", {"params": {"v": value}}) is False
    assert truth("{{ not params.v }}", {"params": {"v": value}}) is True


@pytest.mark.parametrize("value", [True, 1, -0.5, "0", "no", " ", [0], {"a": None}])
def test_other_values_are_true(value: Any) -> None:
    assert truth("{{ params.v }}", {"params": {"v": value}}) is True


def test_strings_inside_objects_are_rendered() -> None:
    nested = {"{{ x": ["{{ params.n }}", 5, None, {"a": "{{ shard.total }}"}]}
    assert render_value(nested, CONTEXT, quote=False) == {"{{ x": ["3", 5, None, {"a": "12"}]}


@given(st.text() | WRITTEN)
def test_a_template_renders_if_and_only_if_it_has_no_faults(text: str) -> None:
    faults = check(text, CONTEXT["params"], item=True)
    if faults:
        with pytest.raises(TemplateError):
            render(text, CONTEXT, quote=False)
    else:
        assert isinstance(render(text, CONTEXT, quote=False), str)
    if "{{" not in text:
        assert not faults
        assert not names(text)
        assert render(text, {}, quote=False) == text
        assert render(text, {}, quote=True) == text


@given(st.text())
def test_a_value_is_never_rendered_as_a_template(value: str) -> None:
    assert render("<{{ params.v }}>", {"params": {"v": value}}, quote=False) == f"<{value}>"


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5))
def test_other_values_than_strings_are_rendered_as_json(value: Any) -> None:
    rendered = render("{{ params.v }}", {"params": {"v": value}}, quote=False)
    assert rendered == value if isinstance(value, str) else json.loads(rendered) == value


@settings(max_examples=40)
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_the_value_of_any_expression_is_one_word_of_shell_text(value: str) -> None:
    text = "printf '<%s>' {{ item.v[0] }} \"{{ item.x | default('$(echo pwned)') }}\" {{ item.v | json }}"
    script = render(text, {"item": {"v": [value]}}, quote=True)
    done = subprocess.run(["sh", "-c", script], capture_output=True, timeout=50, check=True)
    in_json = json.dumps([value], ensure_ascii=False, separators=(",", ":"))
    assert done.stdout.decode() == f"<{value}><$(echo pwned)><{in_json}>"


def test_errors_about_unsafe_values_contain_no_literal() -> None:
    with pytest.raises(TemplateError) as error:
        render("echo `{{ params.x | default('s3cret $') }}`", CONTEXT, quote=True)
    assert str(error.value).startswith("{{ params.x | default(…) }}: a value with special characters")
