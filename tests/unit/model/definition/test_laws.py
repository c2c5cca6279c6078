"""Properties of every definition."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.model.definition.fields import JobDefine, PackConf, StepDefine
from shardmill.model.definition.graph import cycles
from shardmill.model.definition.task_count import pack_of, total
from shardmill.model.definition.validation import check_definition, public_document, stored_document
from support.definition_documents import anything, documents

quick = settings(max_examples=100)


def valid(document: object) -> JobDefine:
    define, faults = check_definition(document)
    assert faults == []
    assert define is not None
    return define


@quick
@given(documents())
def test_a_stored_definition_reads_back_unchanged(document: dict[str, Any]) -> None:
    define = valid(document)
    stored = json.loads(json.dumps(stored_document(define)))
    assert JobDefine.model_validate(stored) == define
    assert valid(stored) == define
    assert stored_document(valid(stored)) == stored


@quick
@given(documents())
def test_responses_contain_no_private_and_no_empty_values(document: dict[str, Any]) -> None:
    define = valid(document)
    response = json.dumps(public_document(define))
    for step in define.steps:
        for secret in step.command.environ.private.values() if step.command else ():
            assert secret not in response
    for part in (public_document(define), *public_document(define)["steps"]):
        assert not [name for name, value in part.items() if value in (None, [], {})]
    faults = check_definition(public_document(define))[1]
    assert {each.code for each in faults} <= {"masked-value"}


@quick
@given(anything | st.dictionaries(st.sampled_from(["jobName", "steps", "params", "info"]), anything))
def test_any_json_is_validated_without_a_crash(document: object) -> None:
    define, faults = check_definition(document)
    assert (define is None) == bool(faults)


@quick
@given(documents(), st.data())
def test_faults_of_a_damaged_definition_have_valid_pointers(
    document: dict[str, Any], data: st.DataObject
) -> None:
    holder: Any = document
    while True:
        key = data.draw(st.sampled_from(sorted(holder) if isinstance(holder, dict) else range(len(holder))))
        inner = holder[key]
        if not isinstance(inner, (dict, list)) or not inner or data.draw(st.booleans()):
            break
        holder = inner
    holder[key] = data.draw(anything)
    for each in check_definition(document)[1]:
        _parent_of(document, each.pointer)


def _parent_of(document: Any, pointer: str) -> None:
    for part in pointer.split("/")[1:-1]:
        name = part.replace("~1", "/").replace("~0", "~")
        document = document[int(name)] if isinstance(document, list) else document[name]
    assert isinstance(document, (dict, list))


@quick
@given(st.integers(1, 500), st.integers(-1000, 1000), st.integers(0, 2_000))
def test_packs_cover_their_range_exactly_once(size: int, start: int, more: int) -> None:
    conf = PackConf(size=size, start=start, end=start + more)
    step = StepDefine(step_name="a", step_type="PACK", pack_conf=conf)
    packs = [pack_of(step, rank) for rank in range(total(step))]
    assert [n for first, last in packs for n in range(first, last + 1)] == list(
        range(start, start + more + 1)
    )
    assert all(last - first + 1 == size for first, last in packs[:-1])


@quick
@given(
    st.integers(1, 8).flatmap(
        lambda n: st.lists(st.lists(st.integers(0, n - 1), max_size=3), min_size=n, max_size=n)
    )
)
def test_cycles_are_found_if_and_only_if_they_exist(waits_for: list[list[int]]) -> None:
    found = cycles(waits_for)
    for circle in found:
        for node, following in zip(circle, [*circle[1:], circle[0]], strict=True):
            assert following in waits_for[node]
        assert circle[0] == min(circle)
        assert len(set(circle)) == len(circle)
    assert bool(found) == (not _can_be_ordered(waits_for))


def _can_be_ordered(waits_for: list[list[int]]) -> bool:
    left = set(range(len(waits_for)))
    while ready := {node for node in left if not left.intersection(waits_for[node])}:
        left -= ready
    return not left
