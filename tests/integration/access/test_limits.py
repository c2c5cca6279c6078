"""Limits of the deployment: the rate of a token, what events may submit, and no limits of applications."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shardmill.engine.access.rate import WINDOW_SECONDS
from shardmill.model.access.limits import Limits
from support.aws_rules.faults import Faults
from support.fakes.lambda_server import FunctionError
from support.moto.cloud import Cloud
from support.moto.moto_cloud import moto_cloud
from support.scenarios.access import Callers
from support.scenarios.job_runner import JobRunner


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    parameters = {"TokenRateLimit": "2", "EventDefinitions": "nightly-*,import"}
    with moto_cloud(parameters=parameters) as started:
        yield started


def test_a_token_beyond_its_rate_gets_429_and_others_do_not(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shardmill.engine.access.request_rate.now_ms", lambda: 1_000_000_000_000)
    flooding, other = (Callers(cloud).with_scopes("read"), Callers(cloud).with_scopes("read"))
    answers = [flooding("GET", "/v1/groups") for _ in range(30)]
    assert [each.status for each in answers] == [200] * 20 + [429] * 10
    rejected = answers[-1]
    assert rejected.json["code"] == "too-many-requests"
    assert 1 <= int(rejected.headers["retry-after"]) <= WINDOW_SECONDS
    assert other("GET", "/v1/groups").status == 200
    assert cloud.http("GET", "/v1/health", token=None).status == 200


@pytest.mark.parametrize("path", ["/v1/groups", "/awe/job", "/awe/node/none", "/awe/", "/node/none"])
def test_requests_to_every_route_that_reads_the_token_are_counted(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """Routes of the node store are public, because they accept data tokens; with a token, they count it."""
    monkeypatch.setattr("shardmill.engine.access.request_rate.now_ms", lambda: 1_500_000_000_000)
    caller = Callers(cloud).with_scopes("read", "submit")
    statuses = [caller("GET", path).status for _ in range(25)]
    assert 429 not in statuses[:20]
    assert statuses[20:] == [429] * 5


def event(name: str) -> dict[str, object]:
    return {"detail-type": "x", "detail": {"jobName": name}, "id": "e1", "source": "mine"}


def test_events_submit_only_what_the_deployment_allows(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardmill.engine.access.request_rate.now_ms", lambda: 2_000_000_000_000)
    runner = JobRunner(cloud)
    for name in ("nightly-load", "import", "payroll"):
        runner.define({"stepName": "a", "content": "x"}, name=name)
    for name in ("nightly-load", "import"):
        assert cloud.invoke("submit", event(name))["job"]["submitUser"] == "eventbridge"
    for name in ("payroll", "no-such-definition"):
        with pytest.raises(FunctionError, match=f"there is no definition named '{name}'"):
            cloud.invoke("submit", event(name))
    assert cloud.http("GET", "/v1/jobs/payroll/e1").status == 404


def test_without_limits_of_applications_nothing_is_counted(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shardmill.engine.access.request_rate.now_ms", lambda: 3_000_000_000_000)
    runner = JobRunner(cloud)
    with Faults() as faults:
        runner.define({"stepName": "a", "sharding": "{{ params.n }}"}, params={"n": 2}, appName="any")
        assert cloud.http("PUT", "/v1/schedules/orders/s", {"cron": "0 4 * * *"}).status == 201
        runner.submit()
        runner.run()
        cloud.http("DELETE", "/v1/jobs/orders/t1?full=true")
        runner.tick()
    assert faults.meter.calls["dynamodb.TransactWriteItems"] > 3
    wanted = [
        call.name for call in faults.calls if "APP#" in str(call.params) or "counted_" in str(call.params)
    ]
    assert wanted == []
    shown = cloud.http("GET", "/v1/limits?application=any").json
    assert [shown[kind] for kind in Limits._fields] == [{"limit": None, "used": None}] * 5
