"""Properties of every definition."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.model.definition.fields import JobDefine, PackConf, StepDefine, pack_of, total
from shardmill.model.definition.graph import cycles
from shardmill.model.definition.validation import check_definition, public_document, stored_document

quick = settings(max_examples=100)

names = st.from_regex(r"[_a-zA-Z][_a-zA-Z0-9-]{0,63}", fullmatch=True)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
variables = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,10}", fullmatch=True)
params = st.dictionaries(variables, anything, max_size=3)
secrets = st.uuids().map(lambda each: f"secret {each}")


def maybe(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


commands = st.fixed_dictionaries(
    {"name": st.just("./run")},
    optional={
        "args": st.just("--n {{ shard.index }}"),
        "argsArray": st.lists(st.just("{{ job.name }}"), max_size=2),
        "dockerimage": st.just("image:1"),
        "environ": maybe(
            public=st.dictionaries(variables, texts.filter(lambda text: "{{" not in text), max_size=2),
            private=st.dictionaries(variables, secrets, max_size=2),
        ),
    },
)
files = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["x.csv", "part-1", "a/b/{{ shard.index }}", "..x"])},
        optional={"nonzero": st.booleans(), "size": st.integers(0, 10**12), "url": st.just("https://x/y")},
    ),
    max_size=2,
    unique_by=lambda file: file["name"],
)
shard_fields = st.one_of(
    st.just({}),
    st.builds(lambda n: {"sharding": n}, st.integers(1, 1_000_000)),
    st.builds(
        lambda n, m: {"shardConf": {"shard": n, "startShardId": m}},
        st.integers(1, 1_000_000),
        st.integers(0, 9),
    ),
    st.builds(
        lambda size, start, tasks: {
            "packConf": {"size": size, "start": start, "end": start + size * tasks - 1}
        },
        st.integers(1, 1_000),
        st.integers(-(10**9), 10**9),
        st.integers(1, 1_000_000),
    ),
)
step_fields = maybe(
    description=texts,
    phase=st.just(3),
    canFail=st.booleans(),
    failFast=st.booleans(),
    toleratedFailures=st.integers(0, 10) | st.sampled_from(["5%", "0.5%", "100%"]),
    maxTaskCount=st.integers(1, 1_000),
    priority=st.integers(-100, 100),
    params=params,
    failedRetries=st.integers(0, 9),
    failedBackoff=st.floats(1, 10),
    timeoutSeconds=st.integers(1, 9_000),
    inputs=files,
    outputs=files,
)


work = st.one_of(
    st.just({}),
    st.builds(
        lambda text: {"content": text}, st.sampled_from(["ls", "echo {{ shard.index }}{{ job.name }}"])
    ),
    st.builds(lambda command: {"command": command}, commands),
)


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """Valid definitions, in any spelling."""
    step_names = draw(st.lists(names, min_size=1, max_size=5, unique=True))
    steps = []
    for at, name in enumerate(step_names):
        step = {"stepName": name, "phase": 3, **draw(step_fields), **draw(shard_fields), **draw(work)}
        earlier = draw(st.lists(st.sampled_from(step_names[:at]), unique=True)) if at else []
        if len(earlier) == 1 and draw(st.booleans()):
            step["dependentStep"] = earlier[0]
        elif draw(st.booleans()):
            step["dependency"] = {"steps": earlier}
        else:
            step["dependentSteps"] = earlier
        steps.append(step)
    job = maybe(
        description=texts,
        params=params,
        workerGroup=names,
        priority=st.integers(-100, 100),
        onFailure=st.sampled_from(["fail", "suspend"]),
        info=maybe(project=texts, userattr=st.dictionaries(texts, texts, max_size=2)),
        retentionDays=st.integers(1, 100) | st.none(),
    )
    return {"jobName": draw(names), "steps": steps, **draw(job)}


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
