"""PUT accepts what GET returns: a definition, schedule or group that is sent back stays the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.engine import definitions
from shardmill.engine.mill import mill
from shardmill.engine.private_values import open_definition
from shardmill.model.definition.fields import JobDefine
from support.definition_documents import documents
from support.moto.cloud import Cloud
from support.moto.http_api import Answer
from support.moto.moto_cloud import moto_cloud

CHANGES = {"version", "updateTime"}
quick = settings(max_examples=20)


class Shared:
    """A cloud for all examples; Hypothesis prints its arguments, and a Cloud is too long for that."""

    def __init__(self, cloud: Cloud) -> None:
        self.http = cloud.http


@pytest.fixture(scope="module")
def shared() -> Iterator[Shared]:
    with moto_cloud() as cloud:
        yield Shared(cloud)


def round_trip(cloud: Shared, path: str, document: Any) -> dict[str, Any]:
    """Save a document, read it, send the answer back and read it again; return the answer."""
    saved = cloud.http("PUT", path, document)
    assert saved.status in (200, 201), saved
    first = cloud.http("GET", path)
    again = cloud.http("PUT", path, first.json)
    assert again.status == 200, again
    assert settled(cloud.http("GET", path)) == settled(first)
    return first.json


def settled(answer: Answer) -> dict[str, Any]:
    """An answer without the times that every save changes."""
    kept = {name: value for name, value in answer.json.items() if name not in CHANGES}
    if "bindings" in kept:
        kept["bindings"] = [{**each, "updateTime": None} for each in kept["bindings"]]
    return kept


notices = st.lists(
    st.fixed_dictionaries(
        {
            "webhook": st.fixed_dictionaries(
                {"url": st.sampled_from(["https://a/x", "https://b/y"]), "secret": st.uuids().map(str)}
            )
        },
        optional={"on": st.just(["success"])},
    )
    | st.just({"sns": "arn:aws:sns:eu-west-1:123456789012:topic"}),
    max_size=3,
)


def opened(job_name: str, version: int | None = None) -> JobDefine:
    """A saved definition with its private values in plain text."""
    saved = definitions.read(mill(), job_name, version)
    return JobDefine.model_validate(open_definition(mill(), job_name, saved.document))


@quick
@given(document=documents(), notify=notices)
def test_any_definition_can_be_sent_back_with_its_private_values(
    shared: Shared, document: dict[str, Any], notify: list[Any]
) -> None:
    path = f"/v1/definitions/{document['jobName']}"
    read = round_trip(shared, path, {**document, "notify": notify})
    before, after = (
        opened(document["jobName"], version) for version in (read["version"], read["version"] + 1)
    )
    assert after == before
    assert shared.http("POST", "/v1/definitions:validate", read).json["valid"]


times = st.one_of(
    st.builds(lambda n: {"cron": f"{n} * * * *"}, st.integers(0, 59)),
    st.builds(lambda n: {"everySeconds": n}, st.integers(1, 10**6)),
    st.builds(lambda n: {"at": f"2030-01-01T00:00:00.{n:03d}Z"}, st.integers(0, 999)),
)
schedules = st.fixed_dictionaries(
    {},
    optional={
        "status": st.sampled_from([0, 1]),
        "timezone": st.sampled_from(["UTC", "Europe/Berlin"]),
        "startDate": st.sampled_from(["2020-01-21", "20200121", 20200121]),
        "endDate": st.sampled_from(["2040-01-21", None]),
        "overlap": st.sampled_from(["allow", "skip", "queue", "replace"]),
        "catchUp": st.sampled_from(["none", "latest", "all"]),
        "maxLatenessSeconds": st.integers(0, 1000) | st.none(),
        "params": st.dictionaries(st.sampled_from("abc"), st.integers() | st.none() | st.text("xyz")),
        "triggerFormat": st.just("%Y%m%d-%H%M") | st.none(),
    },
)


@quick
@given(when=times, fields=schedules)
def test_any_schedule_can_be_sent_back(shared: Shared, when: dict[str, Any], fields: dict[str, Any]) -> None:
    assert shared.http("PUT", "/v1/definitions/orders", {"steps": [{"stepName": "a"}]}).status < 300
    round_trip(shared, "/v1/schedules/orders/s", {**when, **fields})
    shared.http("DELETE", "/v1/schedules/orders/s")


groups = st.fixed_dictionaries(
    {},
    optional={
        "leaseSeconds": st.integers(900, 43_200) | st.none(),
        "types": st.lists(st.sampled_from(["hive", "shell"]), unique=True) | st.none(),
    },
)


@quick
@given(kind=st.sampled_from(["pull", "lambda"]), fields=groups, suspended=st.booleans())
def test_any_group_can_be_sent_back(
    shared: Shared, kind: str, fields: dict[str, Any], suspended: bool
) -> None:
    path = f"/v1/groups/{kind}-group"
    shared.http("PUT", path, {"kind": kind})
    shared.http("POST", f"{path}:{'suspend' if suspended else 'resume'}", {})
    assert bool(round_trip(shared, path, {"kind": kind, **fields})["suspended"]) is suspended


@pytest.mark.parametrize("name", ["default", "lambda"])
def test_a_built_in_group_can_be_sent_back(shared: Shared, name: str) -> None:
    round_trip(shared, f"/v1/groups/{name}", {})


@pytest.mark.parametrize("field", ["id", "name"])
def test_a_group_with_another_name_is_rejected(shared: Shared, field: str) -> None:
    answer = shared.http("PUT", "/v1/groups/default", {field: "other"})
    assert (answer.status, answer.json["faults"][0]["pointer"]) == (422, f"/{field}")


def test_a_private_value_is_kept_only_for_the_command_or_address_it_was_saved_for(shared: Shared) -> None:
    command = {"name": "./merge", "environ": {"private": {"KEY": "s3cret"}}}
    webhook = {"url": "https://a/x", "secret": "whsec_c2VjcmV0"}
    document = {"steps": [{"stepName": "a", "command": command}], "notify": [{"webhook": webhook}]}
    read = round_trip(shared, "/v1/definitions/private", document)

    def codes(changed: dict[str, Any]) -> list[tuple[str, str]]:
        answer = shared.http("PUT", "/v1/definitions/private", changed)
        return [(each["pointer"], each["code"]) for each in answer.json.get("faults", [])]

    other = {**read["steps"][0], "command": {**read["steps"][0]["command"], "args": "--print-env"}}
    private = "/steps/0/command/environ/private/KEY"
    assert codes({**read, "steps": [other]}) == [(private, "masked-value")]
    renamed = {**read["steps"][0], "stepName": "b"}
    assert codes({**read, "steps": [renamed]}) == [(private, "masked-value")]
    elsewhere = {"webhook": {**read["notify"][0]["webhook"], "url": "https://b/y"}}
    assert codes({**read, "notify": [elsewhere]}) == [("/notify/0/webhook/secret", "masked-value")]
    assert codes({**read, "priority": 7}) == []


def test_an_older_version_is_sent_back_with_its_own_private_values(shared: Shared) -> None:
    def document(key: str) -> dict[str, Any]:
        return {
            "steps": [{"stepName": "a", "command": {"name": "./x", "environ": {"private": {"KEY": key}}}}]
        }

    path = "/v1/definitions/rotated"
    assert [shared.http("PUT", path, document(key)).status for key in ("old", "new")] == [201, 200]
    old = shared.http("GET", f"{path}?version=1").json
    assert shared.http("PUT", path, old).status == 200
    step = opened("rotated").steps[0]
    assert step.command is not None
    assert step.command.environ.private == {"KEY": "old"}
