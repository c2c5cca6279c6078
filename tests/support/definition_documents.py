"""Hypothesis strategies for valid definitions, in any spelling."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

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
    st.just({"items": ["a", {"b": 1}]}),
    st.builds(
        lambda n, m: {"shardConf": {"shard": n, "startShardId": m}},
        st.integers(10, 1_000_000),
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
