"""The example and the sample events that the demo and the docs use."""

import json

import pytest
import yaml

from shardmill.engine.jobs.submit_event import request_from_event
from shardmill.model.definition.fields import JobDefine
from shardmill.model.definition.validation import check_definition
from shardmill.model.request import check_request
from support.paths import PROJECT


def example() -> JobDefine:
    found, faults = check_definition(
        yaml.safe_load((PROJECT / "examples" / "balance-report.yaml").read_text())
    )
    assert not faults
    assert found
    return found


def test_example_is_valid_and_has_twelve_shards() -> None:
    assert [(each.step_name, each.sharding) for each in example().steps] == [
        ("generate_files", 12),
        ("merge_files", 1),
    ]


@pytest.mark.parametrize(
    ("name", "trigger"),
    [
        ("submit", "20200121"),
        ("submit-eventbridge", "20200121200001"),
        ("submit-scheduled", "53dc4d37-cffa-4f76-80c9-8b7d4a4d2eaa"),
    ],
)
def test_sample_events_submit_the_example(name: str, trigger: str) -> None:
    event = json.loads((PROJECT / "events" / f"{name}.json").read_text())
    document, default = request_from_event(event, "request-id")
    request, faults = check_request(document, example())
    assert not faults
    assert request
    assert (request.trigger or default) == trigger
