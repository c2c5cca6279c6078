"""What MiniStack keeps of each invocation and each event has a bound."""

import json
from importlib import import_module
from typing import Any

import pytest

from shardmill.local import emulator_quirks


def service(monkeypatch: pytest.MonkeyPatch, name: str, patched: str) -> Any:
    module = import_module(f"ministack.services.{name}")
    monkeypatch.setattr(module, patched, getattr(module, patched))
    module.reset()
    return module


def test_only_the_latest_log_streams_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    functions = service(monkeypatch, "lambda_svc", "_emit_lambda_logs")
    logs = service(monkeypatch, "cloudwatch_logs", "_log_groups")
    monkeypatch.setattr(emulator_quirks, "KEPT_LOG_STREAMS", 3)
    emulator_quirks.limit_log_streams(functions, logs)
    for number in range(10):
        for name in ("f", "g"):
            functions._emit_lambda_logs({"FunctionName": name}, f"r{number}", f"line {number}", False, 1)
    for group in logs._log_groups.all_values():
        lines = [stream["events"][1]["message"] for stream in group["streams"].values()]
        assert lines == ["line 7", "line 8", "line 9"]
    assert len(logs._log_groups.all_values()) == 2
    logs.reset()


def test_only_the_latest_points_of_a_metric_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = service(monkeypatch, "cloudwatch", "_metric_bucket")
    monkeypatch.setattr(emulator_quirks, "KEPT_POINTS", 3)
    emulator_quirks.limit_metrics(metrics)
    for number in range(20):
        metrics.record_metric("AWS/Lambda", "Duration", number)
        (points,) = metrics._metrics.all_values()
        assert len(points) <= 6
        assert [point["Value"] for point in points[-3:]] == list(range(max(0, number - 2), number + 1))
    metrics.reset()


def test_events_are_delivered_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    events = service(monkeypatch, "eventbridge", "_events_log_list")
    delivered: list[Any] = []
    monkeypatch.setattr(events, "_dispatch_event", lambda event, _view: delivered.append(event))
    emulator_quirks.keep_no_events(events)
    for _ in range(3):
        status, _, body = events._put_events(
            {"Entries": [{"Source": "s", "DetailType": "d", "Detail": "{}"}]}
        )
        assert (status, json.loads(body)["FailedEntryCount"]) == (200, 0)
    assert len(delivered) == 3
    assert events._events_log.all_values() == []


def test_a_transaction_is_repeated_with_its_token_and_not_with_another_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dynamodb = service(monkeypatch, "dynamodb", "_txn_token_store")
    emulator_quirks.keep_transaction_digests(dynamodb)
    key = {"KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}], "TableName": "rows"}
    attributes = [{"AttributeName": "pk", "AttributeType": "S"}]
    dynamodb._create_table(key | {"AttributeDefinitions": attributes, "BillingMode": "PAY_PER_REQUEST"})

    def transact(value: str) -> str:
        put = {"TableName": "rows", "Item": {"pk": {"S": value}}}
        put["ConditionExpression"] = "attribute_not_exists(pk)"
        request = {"ClientRequestToken": "token", "TransactItems": [{"Put": put}]}
        status, _, body = dynamodb._transact_write_items(request)
        return "done" if status == 200 else str(json.loads(body)["__type"]).rpartition("#")[2]

    assert [transact(value) for value in "aab"] == ["done", "done", "IdempotentParameterMismatchException"]
    (kept,) = dynamodb._txn_idempotency.all_values()
    assert not isinstance(kept["signature"], dict)
    dynamodb.reset()
