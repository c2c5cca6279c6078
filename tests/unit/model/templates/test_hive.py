"""Values in Hive queries: no parameter changes what a query does, and quoted values arrive as they are."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmill.model.definition.step_types import render_content
from shardmill.model.templates.render import TemplateError

PLACES = [
    "'{{ params.v }}'",
    '"{{ params.v }}"',
    "'a{{ params.v }}b'",
    "'${{ params.v }}'",
    "'it\\'s {{ params.v }}'",
]


def query(text: str, value: object) -> str:
    rendered = render_content("hive", text, {"params": {"v": value}})
    assert isinstance(rendered, str)
    return rendered


def unquoted(literal: str) -> str:
    """The value of a literal as Hive reads it."""
    escape = r"\\(?:u([0-9a-f]{4})|(.))"
    return re.sub(escape, lambda found: chr(int(found[1], 16)) if found[1] else found[2], literal[1:-1])


@pytest.mark.parametrize("place", PLACES)
@given(value=st.text(st.sampled_from("'\"`\\;${}!-u0027\n\r\t\0 aé@#()")) | st.text())
def test_a_value_in_quotes_stays_one_text_with_the_same_characters(place: str, value: str) -> None:
    literal = query(f"select {place};", value).removeprefix("select ").removesuffix(";")
    assert re.fullmatch(r"'([^'\\;\n]|\\[u'])*'|\"([^\"\\;\n]|\\u)*\"", literal), literal
    assert "${" not in literal
    assert unquoted(literal) == unquoted(place.replace("{{ params.v }}", "\x01")).replace("\x01", value)


@pytest.mark.parametrize(
    "value", ["", "sales", "db.sales", "2026-01-31", "-1.5e+3", "1, 2,3", "a,b", "12:30", 7]
)
def test_words_numbers_and_lists_of_them_need_no_quotes(value: object) -> None:
    assert (
        query("select {{ params.v }} from `{{ params.v }}` -- {{ params.v }}", value).count(str(value)) >= 3
    )


@pytest.mark.parametrize(
    "text", ["where day = {{ params.v }}", "from `{{ params.v }}`", "'a' -- {{ params.v }}"]
)
@pytest.mark.parametrize(
    "value",
    [
        "1 or 1=1",
        "x; !touch pwned;",
        "reflect('java.lang.Runtime')",
        "a--b",
        "${env:KEY}",
        "'a','b'",
        "x`y",
        "a\nb",
    ],
)
def test_other_values_outside_of_quotes_are_rejected(text: str, value: str) -> None:
    with pytest.raises(TemplateError, match="write the placeholder inside quotes"):
        query(text, value)


def test_a_query_that_is_a_parameter_is_what_the_request_says() -> None:
    assert query(" {{ params.v }} ", "select 'x';") == " select 'x'; "


@pytest.mark.parametrize("value", ["'", '"', "x; !id", "${env:KEY}", "f(x)", "a\\b", "a -- b", "`", "a\nb"])
def test_a_setting_takes_no_value_that_could_change_a_query(value: str) -> None:
    content = {"query": "select '${hiveconf:day}'", "hiveconf": {"day": "{{ params.v }}", "n": 7}}
    with pytest.raises(TemplateError, match="a setting takes no quotes"):
        render_content("hive", content, {"params": {"v": value}})
    plain = render_content("hive", content, {"params": {"v": "s3://bucket/day=2026-01-01 x, y"}})
    assert plain["hiveconf"] == {"day": "s3://bucket/day=2026-01-01 x, y", "n": 7}
