"""Parsers for option values."""

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from shardmill.cli.parsing import (
    MAX_INDEXES,
    format_duration,
    parse_duration,
    parse_indexes,
    parse_moment,
    parse_params,
    parse_step_params,
)

TEXT = st.text(max_size=20)

NAME = TEXT.filter(lambda text: text and "=" not in text)

STEP = st.from_regex(r"[_a-zA-Z][_a-zA-Z0-9-]{0,9}", fullmatch=True)


@given(st.dictionaries(NAME, TEXT))
def test_params_round_trip(values: dict[str, str]) -> None:
    assert parse_params([f"{name}={value}" for name, value in values.items()]) == values


@given(st.dictionaries(STEP, st.dictionaries(NAME, TEXT, min_size=1)))
def test_step_params_round_trip(values: dict[str, dict[str, str]]) -> None:
    given_ = [f"{step}.{name}={value}" for step, own in values.items() for name, value in own.items()]
    assert parse_step_params(given_) == values


@given(TEXT.filter(lambda text: "=" not in text.lstrip("=") or text.startswith("=")))
def test_text_without_assignment_is_rejected(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_params([text])


@given(st.lists(TEXT))
def test_any_text_is_params_or_rejected(texts: list[str]) -> None:
    try:
        found = parse_params(texts)
    except typer.BadParameter:
        return
    assert [f"{name}={value}" for name, value in found.items()] == texts


@given(st.lists(TEXT))
def test_any_text_is_step_params_or_rejected(texts: list[str]) -> None:
    try:
        found = parse_step_params(texts)
    except typer.BadParameter:
        return
    flat = [f"{step}.{name}={value}" for step, own in found.items() for name, value in own.items()]
    assert sorted(flat) == sorted(texts)


@pytest.mark.parametrize(
    ("text", "zone", "begins"),
    [
        ("2026-01-01", "UTC", "2026-01-01T00:00:00+00:00"),
        ("20260701", "Europe/Berlin", "2026-06-30T22:00:00+00:00"),
        ("2026-10-25", "Europe/Berlin", "2026-10-24T22:00:00+00:00"),
        ("2018-11-04", "America/Sao_Paulo", "2018-11-04T03:00:00+00:00"),  # a clock change skips midnight
        ("2026-10-25T02:30:00+01:00", "Asia/Tokyo", "2026-10-25T01:30:00+00:00"),
        ("2026-10-25 02:30", "Asia/Tokyo", "2026-10-25T02:30:00+00:00"),
    ],
)
def test_moment_is_converted_to_utc(text: str, zone: str, begins: str) -> None:
    assert parse_moment(text).to_utc(zone).isoformat() == begins


@given(st.one_of(TEXT, st.from_regex(r"\d{4}-?\d\d-?\d\d(T\d\d:\d\d(Z|[+-]\d\d:\d\d)?)?", fullmatch=True)))
def test_any_text_is_a_moment_or_rejected(text: str) -> None:
    try:
        found = parse_moment(text)
        began = found.to_utc("Pacific/Kiritimati")
    except typer.BadParameter:
        return
    assert found.text == text
    assert began.tzinfo


@given(st.integers(0, 10 * 366 * 86_400))
def test_duration_round_trips(seconds: int) -> None:
    assert parse_duration(format_duration(seconds)) == parse_duration(str(seconds)) == seconds


@pytest.mark.parametrize("text", ["", "m", "-1", "1.5h", "1h30m", "1 h", "1w", "\u0661h", "9" * 13, "3661d"])
def test_invalid_duration_is_rejected(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_duration(text)


@given(st.lists(st.integers(0, 10**9 - 1), min_size=1, max_size=20))
def test_indexes_round_trip(numbers: list[int]) -> None:
    assert parse_indexes(",".join(map(str, numbers))) == sorted(set(numbers))


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 50)), min_size=1, max_size=10))
def test_index_ranges_are_expanded(ranges: list[tuple[int, int]]) -> None:
    text = ", ".join(f"{first}-{first + more}" for first, more in ranges)
    wanted = {number for first, more in ranges for number in range(first, first + more + 1)}
    assert parse_indexes(text) == sorted(wanted)


@given(st.text(max_size=12))
def test_any_text_is_indexes_or_rejected(text: str) -> None:
    try:
        found = parse_indexes(text)
    except typer.BadParameter:
        return
    assert 0 < len(found) <= MAX_INDEXES
    assert found == sorted(set(found))


def test_number_of_indexes_is_limited() -> None:
    assert len(parse_indexes(f"1-{MAX_INDEXES}")) == MAX_INDEXES
    with pytest.raises(typer.BadParameter, match="more than"):
        parse_indexes(f"0-{MAX_INDEXES}")
    with pytest.raises(typer.BadParameter, match="more than"):
        parse_indexes(f"1-{MAX_INDEXES},0")
