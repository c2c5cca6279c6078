"""Expressions: values, filters, comparisons, their errors and their limits."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from shardmill.model.templates.expression import FILTERS, MAX_TEXT, TemplateError, is_true, same
from shardmill.model.templates.parser import MAX_LENGTH, MAX_NESTING, parse

CONTEXT: dict[str, Any] = {
    "params": {
        "n": 3,
        "text": "Abc",
        "none": None,
        "empty": [],
        "files": ["a", "b", {"k k": [7]}],
        "deep": {"y": [10, {"z": "end"}], "1": "one"},
        "a-b": "dash",
        "a.b": "dotted",
        "a.b.c": {"d": "longest"},
        "a": {"b": "hidden", "x": "seen"},
        "ü": "umlaut",
    },
    "shard": {"index": 9, "total": 12},
    "steps": {"list-it": {"output": {"files": ["x", "y"], "count": 2}}, "odd": {"output": None}},
    "item": {"key": [1, 2]},
}

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.0, 1.0, 0.5])
    | st.text("aB", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=5,
)
WORDS = ("and", "or", "not", "in", "true", "null", "default(", "length", "first", "json", "lower", "eval")
SIGNS = ("(", ")", "|", "==", "!=", "<", "<=", ">", ">=", ".", "[", "]", "'", '"', "\\", "-", "é")
OPERANDS = ("params.n", "params.deep.y[0]", "item", "steps.odd.output", "1", "-2.5", "'a'", '"b"')
FRAGMENTS = st.lists(st.sampled_from(WORDS + SIGNS + OPERANDS), max_size=30).map(" ".join)
BOOLEANS = st.recursive(
    st.sampled_from(["true", "false", "1 < 2", "2 <= 1", "'a' == 'b'", "'a' in 'ab'", "'a' not in 'ab'"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from([" and ", " or "]), inner).map("".join),
        inner.map("not {}".format),
        inner.map("({})".format),
    ),
    max_leaves=12,
)


def value(text: str, **more: Any) -> Any:
    return parse(text).value({**CONTEXT, "v": more})


def fault_of(text: str, **more: Any) -> str:
    """The message of the error, or an empty string; a value must be JSON."""
    try:
        json.dumps(value(text, **more))
    except TemplateError as error:
        return str(error) or "no words"
    return ""


def written(text: str, quote: str) -> str:
    """A string as a literal with the given quotes."""
    return quote + text.replace("\\", "\\\\").replace(quote, "\\" + quote) + quote


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("params.n", 3),
        ("params.none", None),
        ("params.a-b", "dash"),
        ("params.deep.y[1].z", "end"),
        ("params.deep.1", "one"),
        ('params["deep"]["y"][ 0 ]', 10),
        ("params.files[2]['k k'][0]", 7),
        ("params.a.b", "dotted"),
        ("params.a.b.c.d", "longest"),
        ("params.a.x", "seen"),
        ("params.a['b']", "hidden"),
        ("params['a'].b", "hidden"),
        ("params['a.b']", "dotted"),
        ("params['ü']", "umlaut"),
        ("steps.list-it.output", {"files": ["x", "y"], "count": 2}),
        ("steps.list-it.output.files[1]", "y"),
        ("steps.odd.output", None),
        ("item", {"key": [1, 2]}),
        ("item.key[1]", 2),
        ("shard.index", 9),
    ],
)
def test_paths_access_parts_of_json_values(text: str, expected: Any) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("params.x", "{{ params.x }} has no value here: params has no 'x'"),
        ("params.deep.y[2]", "{{ params.deep.y[2] }} has no value here: params.deep.y has only 2 elements"),
        ("params.n.real", "{{ params.n.real }} has no value here: params.n is a number, not an object"),
        ("params.deep[0]", "{{ params.deep[0] }} has no value here: params.deep is an object, not a list"),
        (
            "params.files['0']",
            "{{ params.files.0 }} has no value here: params.files is a list, not an object",
        ),
        ("params.text[0]", "{{ params.text[0] }} has no value here: params.text is a string, not a list"),
        ("pack.start", "{{ pack.start }} has no value here: pack is not available"),
        ("steps.x.output", "{{ steps.x.output }} has no value here: steps has no 'x'"),
        ("params.empty | first", "{{ params.empty | first }} has no value here: first of an empty list"),
        ("1 == 2 or params.x", "{{ params.x }} has no value here: params has no 'x'"),
    ],
)
def test_the_message_names_the_missing_value(text: str, message: str) -> None:
    with pytest.raises(TemplateError) as error:
        value(text)
    assert str(error.value) == message


@pytest.mark.parametrize("name", ["__class__", "__dict__", "keys", "real", "append", "__len__"])
@pytest.mark.parametrize("path", ["params", "params.files", "params.text", "params.n", "item", "shard"])
def test_python_attributes_are_not_accessible(path: str, name: str) -> None:
    with pytest.raises(TemplateError, match="has no value here"):
        value(f"{path}.{name}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("params.files | length", 3),
        ("params.text | length", 3),
        ("params.deep | length", 2),
        ("params.files | first | upper", "A"),
        ("params.files | last", {"k k": [7]}),
        ("params.files | json", '["a","b",{"k k":[7]}]'),
        ("'ü\"' | json", '"ü\\""'),
        ("params.text|lower", "abc"),
        ("params.x | default(5)", 5),
        ("params.none | default('d')", "d"),
        ("params.n | default(5)", 3),
        ("false | default(true)", False),
        ("params.x.y[3] | default(null)", None),
        ("params.x | lower | default('none')", "none"),
        ("params.empty | first | default(-1.5)", -1.5),
        ("params.empty | first | default('x') | upper", "X"),
        ("(params.x == 1) | default(false)", False),
        ("params.files | length >= 3 and not params.x | default(false)", True),
        ("steps.odd.output.files | default('[]')", "[]"),
    ],
)
def test_filters_bind_tighter_than_comparisons(text: str, expected: Any) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("params.n | lower", r"\{\{ params.n \| lower \}\}: lower takes a string, not a number"),
        ("true | length", "length takes a string, a list or an object, not true or false"),
        ("params.text | first", "first takes a list, not a string"),
        ("params.none | upper | default('x')", "upper takes a string, not null"),
        ("params.n < 'a'", r"\{\{ params.n < … \}\}: a number and a string cannot be ordered"),
        ("true < false", "true or false and true or false cannot be ordered"),
        ("null >= 1", "compare numbers with numbers, and strings with strings"),
        ("params.files > params.files", "a list and a list cannot be ordered"),
        ("1 in 'a1'", "a number cannot be in a string"),
        ("'a' not in 5", "a string cannot be in a number"),
        ("null in params.deep", "null cannot be in an object"),
    ],
)
def test_type_errors_are_reported(text: str, part: str) -> None:
    with pytest.raises(TemplateError, match=part):
        value(text)


@pytest.mark.parametrize(
    "text", ["params.n < 's3cret'", "'s3cret' | first", "params.x == 's3cret'", "8765 in 's3cret'"]
)
def test_errors_of_evaluation_contain_no_literal(text: str) -> None:
    with pytest.raises(TemplateError) as error:
        value(text)
    assert "s3cret" not in str(error.value)
    assert "8765" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "it ends unexpectedly"),
        ("params.n ==", "it ends unexpectedly"),
        ("(params.n", "it ends unexpectedly"),
        ("params.n)", r"'\)' is unexpected"),
        ("params.n params.n", "'params.n' is unexpected"),
        ("params.n -1", "'-1' is unexpected"),
        ("params.n + 1", r"'\+ 1' is unexpected"),
        ("params.n = 1", "'= 1' is unexpected"),
        ("params.", "'.' is unexpected"),
        ("params.files[x]", r"'\[x\]' is unexpected"),
        ("params.files[-1]", r"'\[-1\]' is unexpected"),
        ("params.files[01]", r"'\[01\]' is unexpected"),
        ("007", "'007' is unexpected"),
        ("1e999", "1e999 is too large"),
        ("in", "'in' is unexpected"),
        ("1 == not 2", "'not' is unexpected"),
        ("1 not 2", "'2' is unexpected"),
        ("1 < 2 < 3", "comparisons cannot be chained"),
        ("'abc", "the quote ' is not closed"),
        ('params["x', r"'\[\"x' is unexpected"),
        (r"'\x'", "contains an invalid escape sequence"),
        (r"'\ud800'", "contains an invalid escape sequence"),
        ("params", "'params' must be followed by a name"),
        ("params.n()", r"'\(' is unexpected"),
        ("params.n | length()", r"'\(' is unexpected"),
        ("params.n | default", "default takes one literal"),
        ("params.n | default(params.n)", "default takes one literal"),
        ("params.n | default(1", "default takes one literal"),
        (
            "params.n | eval",
            r"unknown filter 'eval': the filters are default\(LITERAL\), first, json, last, length, lower, "
            "upper",
        ),
        ("params.n |", "unknown filter ''"),
        ("params.n\N{NO-BREAK SPACE}== 3", "is unexpected"),
        ("\N{NO-BREAK SPACE}", "is unexpected"),
    ],
)
def test_syntax_errors_have_a_position(text: str, part: str) -> None:
    with pytest.raises(TemplateError, match=part):
        parse(text)


@given(st.text() | FRAGMENTS)
def test_nothing_but_a_template_error_is_ever_raised(text: str) -> None:
    assert fault_of(text) != "no words"


@pytest.mark.parametrize(("opened", "closed", "most"), [("(", ")", 20), ("not ", "", 20), ("not (", ")", 10)])
def test_nesting_is_bounded(opened: str, closed: str, most: int) -> None:
    assert value(opened * most + "true" + closed * most) is True
    with pytest.raises(TemplateError, match=f"nested deeper than {MAX_NESTING} levels"):
        parse(opened * (most + 1) + "true" + closed * (most + 1))


def test_length_is_bounded() -> None:
    assert value("'" + "x" * (MAX_LENGTH - 2) + "'") == "x" * (MAX_LENGTH - 2)
    with pytest.raises(TemplateError, match="1001 characters; at most 1000"):
        parse("'" + "x" * (MAX_LENGTH - 1) + "'")


def test_results_of_filters_are_bounded() -> None:
    with pytest.raises(TemplateError, match=f"json results in more than {MAX_TEXT} characters"):
        value("'\"'" + "|json" * 190)


@pytest.mark.parametrize(
    "chain", ["true" + " and true" * 110, "1" + " or 1" * 190, "'x'" + "|lower|upper" * 80]
)
def test_long_chains_do_not_count_as_nesting(chain: str) -> None:
    assert len(chain) <= MAX_LENGTH
    assert value(chain) in (True, "X")


@given(st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.booleans() | st.none() | TEXTS)
def test_a_json_literal_is_its_value(literal: Any) -> None:
    found = value(json.dumps(literal))
    assert found == literal
    assert type(found) is type(literal)


@given(TEXTS, st.sampled_from("'\""))
def test_a_quoted_string_is_that_string(text: str, quote: str) -> None:
    assert value(written(text, quote)) == text


@given(TEXTS, VALUES)
def test_any_key_can_be_accessed_with_brackets(key: str, held: Any) -> None:
    path = parse(f"v[{json.dumps(key)}]")
    assert path.value({"v": {key: held}}) == held
    assert parse(str(path)).value({"v": {key: held}}) == held


@given(VALUES)
def test_truth_is_that_of_python(held: Any) -> None:
    assert is_true(held) is bool(held)


def test_the_string_false_is_false() -> None:
    assert not any(map(is_true, ("false", "FALSE", "False")))
    assert all(map(is_true, ("no", "0", " ", "false ", ["false"])))
    assert value("not 'False'") is True


@given(BOOLEANS)
def test_precedence_of_and_or_not_is_that_of_python(text: str) -> None:
    names = {"true": True, "false": False, "__builtins__": {}}
    assume(text.count("(") + text.count("not ") <= MAX_NESTING)
    assert value(text) is bool(eval(text, names))


@given(VALUES, VALUES)
def test_and_or_not_accept_any_values_and_return_a_boolean(a: Any, b: Any) -> None:
    assert value("v.a and v.b", a=a, b=b) is bool(a and b)
    assert value("v.a or v.b", a=a, b=b) is bool(a or b)
    assert value("not v.a", a=a) is (not a)


def test_and_and_or_short_circuit() -> None:
    assert value("true or params.x") is True
    assert value("false and params.x") is False


@given(
    st.tuples(st.integers() | st.floats(allow_nan=False), st.integers() | st.floats(allow_nan=False))
    | st.tuples(st.text(), st.text())
)
@pytest.mark.parametrize(
    ("sign", "meant"),
    [
        ("<", operator.lt),
        ("<=", operator.le),
        (">", operator.gt),
        (">=", operator.ge),
        ("==", operator.eq),
        ("!=", operator.ne),
    ],
)
def test_numbers_and_strings_compare_as_in_python(
    sign: str, meant: Callable[[Any, Any], bool], pair: tuple[Any, Any]
) -> None:
    assert value(f"v.a {sign} v.b", a=pair[0], b=pair[1]) is meant(*pair)


@given(VALUES, VALUES)
def test_equality_is_that_of_json(a: Any, b: Any) -> None:
    def canonical(held: Any) -> str:
        return json.dumps(json.loads(json.dumps(held), parse_int=float), sort_keys=True)

    assert same(a, b) is (canonical(a) == canonical(b))
    assert value("v.a == v.b", a=a, b=b) is same(a, b)
    assert value("v.a != v.b", a=a, b=b) is not same(a, b)


@given(VALUES, st.lists(VALUES, max_size=4), st.text("ab", max_size=3), st.text("ab", max_size=1))
def test_in_and_not_in_are_opposites(each: Any, many: list[Any], text: str, part: str) -> None:
    assert value("v.a in v.b", a=each, b=many) is any(same(each, other) for other in many)
    assert value("v.a not in v.b", a=each, b=many) is not value("v.a in v.b", a=each, b=many)
    assert value("v.a in v.b", a=part, b=text) is (part in text)
    assert value("v.a in v.b", a=part, b={text: 1}) is (part == text)


def test_true_is_not_a_number() -> None:
    assert value("true == 1") is False
    assert value("1 == 1.0") is True
    assert value("v.a == v.b", a=[True], b=[1]) is False


def test_equality_of_deep_values_does_not_recurse() -> None:
    one: list[Any] = []
    other: list[Any] = []
    for _ in range(10_000):
        one, other = [one], [other]
    assert same(one, other)
    assert not same([one], other)


@given(st.sampled_from(sorted(FILTERS)), VALUES)
def test_filters_accept_their_types_only(name: str, held: Any) -> None:
    fault = fault_of(f"v.a | {name}", a=held)
    if not isinstance(held, FILTERS[name].takes):
        assert f"{name} takes {FILTERS[name].wanted}" in fault
    elif name in ("first", "last") and not held:
        assert f"{name} of an empty list" in fault
    else:
        assert fault == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("params.a-b['k']['x y'][0]", 'params.a-b.k["x y"][0]'),
        ("(params.n == 1)|default('x')|lower", "(params.n == …) | default(…) | lower"),
        ("not (params.n in 'abc') and (true or item)", "(not (params.n in …)) and (… or item)"),
    ],
)
def test_the_text_of_an_expression_contains_no_literals(text: str, expected: str) -> None:
    assert str(parse(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("params.n", [("params.n", False)]),
        ("params.n | default(1) == item", [("params.n", True), ("item", False)]),
        ("(params.n or not params.x) | json | default(1)", [("params.n", True), ("params.x", True)]),
        ("params.n | json", [("params.n", False)]),
        ("1 < 2", []),
    ],
)
def test_paths_are_listed_with_whether_they_may_be_missing(
    text: str, expected: list[tuple[str, bool]]
) -> None:
    assert [(str(path), optional) for path, optional in parse(text).paths()] == expected
