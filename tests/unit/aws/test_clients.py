import platform

import boto3
import pytest

from shardmill.aws import clients


def test_the_user_agent_names_the_sdk_and_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_EXECUTION_ENV", raising=False)
    monkeypatch.delenv("AWS_SDK_UA_APP_ID", raising=False)
    system = f"{platform.system()}/{platform.release()}"
    assert clients._user_agent() == f"Boto3/{boto3.__version__} Python/{platform.python_version()} {system}"


def test_the_user_agent_names_the_lambda_runtime_and_the_application(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_EXECUTION_ENV", "AWS_Lambda_python3.12")
    monkeypatch.setenv("AWS_SDK_UA_APP_ID", "reports")
    assert clients._user_agent().endswith(" exec-env/AWS_Lambda_python3.12 app/reports")


def test_every_request_carries_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    seen: list[str] = []

    def stop(request: object, **_: object) -> None:
        seen.append(request.headers["User-Agent"].decode())  # type: ignore[attr-defined]
        raise InterruptedError

    client = boto3.client("sqs", config=clients._CONFIG, aws_access_key_id="a", aws_secret_access_key="b")
    client.meta.events.register("before-send.sqs", stop)
    with pytest.raises(InterruptedError):
        client.list_queues()
    assert seen[0].startswith(clients._user_agent())
    assert f"Botocore/{boto3.__version__.split('.')[0]}" in seen[0]
