"""Unpatched MiniStack still needs each quirk of local/emulator_quirks.py. Remove the quirk of a failing test.

The last test shows the same behaviour with the patched emulator of `dev`.
"""

import contextlib
import io
import json
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shardmill.local import emulator_quirks
from shardmill.local.cloud import Cloud, bind, emulator_environment
from shardmill.local.deploy import Endpoint
from shardmill.local.state_folder import StateFolder
from support.processes import child_process

ROLE = "arn:aws:iam::000000000000:role/any"
PASS_MACHINE = {"StartAt": "P", "States": {"P": {"Type": "Pass", "End": True}}}
WAIT_MACHINE = {"StartAt": "W", "States": {"W": {"Type": "Wait", "Seconds": 600, "End": True}}}
SLEEPER = """
import time
def handler(event, context):
    print("x", flush=True)
    time.sleep(event.get("seconds", 0))
"""
UNFINISHED_STACK = {
    "Resources": {
        "Api": {"Type": "AWS::ApiGatewayV2::Api", "Properties": {"Name": "a", "ProtocolType": "HTTP"}},
        "Authorizer": {
            "Type": "AWS::ApiGatewayV2::Authorizer",
            "Properties": {
                "ApiId": {"Ref": "Api"},
                "Name": "authorizer",
                "AuthorizerType": "REQUEST",
                "AuthorizerUri": "arn:aws:lambda:us-east-1:000000000000:function:sleeper",
                "AuthorizerPayloadFormatVersion": "2.0",
            },
        },
        "Setup": {
            "Type": "Custom::Setup",
            "DependsOn": "Authorizer",
            "Properties": {
                "ServiceToken": "arn:aws:lambda:us-east-1:000000000000:function:sleeper",
                "ServiceTimeout": 600,
            },
        },
    }
}


def until(condition: Callable[[], Any], seconds: float = 20.0) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"condition not met within {seconds} s"
        time.sleep(0.02)
    return found


@contextlib.contextmanager
def plain_ministack(folder: StateFolder) -> Iterator[tuple[Endpoint, subprocess.Popen[bytes]]]:
    """MiniStack with the settings of `dev`, without its patches."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder.scratch.mkdir(parents=True, exist_ok=True)
    with child_process(
        [sys.executable, "-c", "from ministack.app import main; main()"],
        env=emulator_environment(folder, port),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        until(lambda: _answers(port))
        yield Endpoint(f"http://127.0.0.1:{port}"), process


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def archive(source: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as packed:
        packed.writestr("app.py", source)
    return buffer.getvalue()


def machine(stepfunctions: Any, name: str, definition: dict[str, Any]) -> str:
    made = stepfunctions.create_state_machine(name=name, definition=json.dumps(definition), roleArn=ROLE)
    return str(made["stateMachineArn"])


def seconds_of_an_execution(stepfunctions: Any) -> float:
    arn = stepfunctions.start_execution(stateMachineArn=machine(stepfunctions, "once", PASS_MACHINE))[
        "executionArn"
    ]

    def ended() -> Any:
        execution = stepfunctions.describe_execution(executionArn=arn)
        return execution if execution["status"] == "SUCCEEDED" else None

    execution = until(ended)
    return float((execution["stopDate"] - execution["startDate"]).total_seconds())


def make_sleeper(functions: Any) -> None:
    functions.create_function(
        FunctionName="sleeper",
        Runtime="python3.11",
        Handler="app.handler",
        Role=ROLE,
        Code={"ZipFile": archive(SLEEPER)},
        Timeout=60,
    )


def observe(endpoint: Endpoint) -> dict[str, Any]:
    """Use the services; return what can be observed before a stop."""
    seen: dict[str, Any] = {}
    stepfunctions, functions = endpoint.client("stepfunctions"), endpoint.client("lambda")
    gateway, cloudformation = endpoint.client("apigatewayv2"), endpoint.client("cloudformation")
    seen["execution seconds"] = seconds_of_an_execution(stepfunctions)
    started = stepfunctions.start_execution(
        stateMachineArn=machine(stepfunctions, "long", WAIT_MACHINE), name="long"
    )
    seen["execution"] = started["executionArn"]
    make_sleeper(functions)
    functions.invoke(FunctionName="sleeper", Payload=b"{}")
    cloudformation.create_stack(StackName="half", TemplateBody=json.dumps(UNFINISHED_STACK))
    api = until(lambda: gateway.get_apis()["Items"])[0]
    seen["api"] = api["ApiEndpoint"]
    authorizer = until(lambda: gateway.get_authorizers(ApiId=api["ApiId"])["Items"])[0]
    seen["identity source"] = authorizer["IdentitySource"]
    functions.invoke(FunctionName="sleeper", Payload=b'{"seconds": 30}', InvocationType="Event")
    time.sleep(1)
    return seen


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = StateFolder.at(tmp_path_factory.mktemp("plain"))
    saved = folder.cloud / "state"
    with plain_ministack(folder) as (endpoint, process):
        seen = observe(endpoint)
        seen["saved while it runs"] = sorted(file.stem for file in saved.glob("*.json"))
        process.terminate()
        until(lambda: (saved / "stepfunctions.json").exists())
        time.sleep(3.5)
        seen["ended"] = process.poll() is not None
        seen["saved"] = {file.stem for file in saved.glob("*.json")}
    with plain_ministack(folder) as (endpoint, _):
        stacks = endpoint.client("cloudformation").describe_stacks(StackName="half")["Stacks"]
        seen["stack"] = stacks[0]["StackStatus"]
        describe = endpoint.client("stepfunctions").describe_execution
        seen["execution after restart"] = describe(executionArn=seen["execution"])
    return seen


def test_executions_start_with_a_delay(seen: dict[str, Any]) -> None:
    assert seen["execution seconds"] >= emulator_quirks.START_DELAY


def test_running_executions_fail_at_a_restart(seen: dict[str, Any]) -> None:
    execution = seen["execution after restart"]
    assert (execution["status"], execution["error"]) == ("FAILED", emulator_quirks.RESTARTED)


def test_stacks_in_progress_stay_in_progress_after_a_restart(seen: dict[str, Any]) -> None:
    assert seen["stack"] == "CREATE_IN_PROGRESS"


def test_the_api_endpoint_has_a_host_name_of_its_own(seen: dict[str, Any]) -> None:
    assert ".execute-api." in seen["api"]


def test_an_authorizer_without_identity_source_gets_a_default(seen: dict[str, Any]) -> None:
    assert seen["identity source"] == ["$request.header.Authorization"]


def test_state_is_not_saved_at_run_time(seen: dict[str, Any]) -> None:
    assert seen["saved while it runs"] == []


def test_unused_services_are_saved(seen: dict[str, Any]) -> None:
    assert {"cloudwatch_logs", "iot", "rds"} <= seen["saved"] - emulator_quirks.PERSISTED_SERVICES
    assert seen["saved"] >= emulator_quirks.PERSISTED_SERVICES


def test_a_running_invocation_delays_the_stop(seen: dict[str, Any]) -> None:
    assert not seen["ended"]


def run_python(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_rules_do_not_save_when_they_fired() -> None:
    program = (
        "from ministack.services import eventbridge as e; e._rule_last_fired; print(sorted(e.get_state()))"
    )
    assert "fired" not in run_python(program)


def test_cloudformation_creates_no_versions_and_aliases_of_state_machines() -> None:
    """Therefore `load_emulated_template` removes them."""
    program = (
        "from ministack.services.cloudformation import provisioners as p; "
        "print(sorted(each for each in p._RESOURCE_HANDLERS if each.startswith('AWS::StepFunctions::')))"
    )
    assert "StateMachine'" in run_python(program)
    assert "StateMachineAlias" not in run_python(program)


def test_a_long_poll_checks_the_queue_every_tenth_of_a_second() -> None:
    program = "import inspect; from ministack.services import sqs; print(inspect.getsource(sqs))"
    source = run_python(program)
    assert "await asyncio.sleep(min(0.1," in source
    assert source.count(".sleep(") == 1
    assert "esm_wake.set()" in source


def test_only_the_patched_sleeps_change() -> None:
    class Clock:
        slept: list[float] = []
        name = "time"

        def sleep(self, seconds: float) -> None:
            self.slept.append(seconds)

    class Service:
        time = Clock()

    emulator_quirks.skip_start_delay(Service)
    for seconds in (emulator_quirks.START_DELAY, 2.0):
        Service.time.sleep(seconds)
    assert Clock.slept == [0, 2.0]
    assert Service.time.name == "time"


def test_ended_executions_keep_their_history() -> None:
    count = emulator_quirks.KEPT_EXECUTIONS + 1
    program = f"""
from ministack.services import stepfunctions as s
for n in range({count}):
    arn = f"arn:aws:states:us-east-1:000000000000:execution:m:{{n}}"
    s._executions[arn] = execution = dict(executionArn=arn, stateMachineArn="m", name=str(n), input="{{}}")
    execution.update(startDate="2026-01-01T00:00:00Z", events=[])
    s._fail_execution(execution, "e", "c")
print(sum(1 for each in s._executions.all_values() if each["events"]))"""
    assert run_python(program) == str(count)


def test_every_invocation_leaves_a_log_stream_and_points_of_metrics() -> None:
    count = 2 * emulator_quirks.KEPT_POINTS + 1
    program = f"""
from ministack.services import cloudwatch, cloudwatch_logs, lambda_svc
for n in range({count}):
    lambda_svc._emit_lambda_logs({{"FunctionName": "f"}}, str(n), "x", False, 1)
    cloudwatch.record_metric("AWS/Lambda", "Duration", n)
(group,), (points,) = cloudwatch_logs._log_groups.all_values(), cloudwatch._metrics.all_values()
print(len(group["streams"]), len(points))"""
    assert run_python(program) == f"{count} {count}"


def test_the_requests_of_transactions_are_kept() -> None:
    program = "import inspect; from ministack.services import dynamodb as d; print(inspect.getsource(d))"
    source = run_python(program)
    assert 'signature = {k: v for k, v in data.items() if k != "ClientRequestToken"}' in source
    assert '_txn_token_store(crt, {"signature": signature' in source


def test_every_event_is_kept() -> None:
    program = (
        "from ministack.services import eventbridge as e; entries = [{'Source': 's', 'Detail': '{}'}] * 10; "
        "[e._put_events({'Entries': entries}) for _ in range(5)]; print(len(e._events_log_list()))"
    )
    assert run_python(program) == "50"


def test_state_is_deep_copied_and_written_as_json() -> None:
    program = (
        "import inspect; from ministack.core import persistence; from ministack.services import dynamodb; "
        "print(inspect.getsource(dynamodb.get_state), inspect.getsource(persistence.save_state))"
    )
    assert "copy.deepcopy(" in run_python(program)
    assert "json.dump(" in run_python(program)


def test_an_unreadable_state_file_is_treated_as_missing(tmp_path: Path) -> None:
    (tmp_path / "dynamodb.json").write_text('{"__ministack_format__": 2, "payl')
    program = (
        "from ministack.core import persistence as p; "
        f"p.PERSIST_STATE, p.STATE_DIR = True, {str(tmp_path)!r}; print(p.load_state('dynamodb'))"
    )
    assert run_python(program) == "None"


def test_docker_containers_are_searched_at_start_and_stop() -> None:
    program = "import inspect, ministack.app as a; print(inspect.getsource(a._handle_lifespan))"
    assert run_python(program).count("_stop_docker_containers") == 2


def test_the_patched_emulator_saves_state_and_resumes_executions(tmp_path: Path) -> None:
    folder, messages = StateFolder.at(tmp_path), list[str]()
    folder.save_deployment(version="any")
    with folder.locked() as lock:
        cloud = Cloud.start(folder, bind(0), lock)
        try:
            cloud.wait_until_up()
            first = observe(Endpoint(cloud.endpoint))
        finally:
            cloud.stop(messages.append)
        saved = {file.stem for file in (folder.cloud / "state").glob("*.json")}
        assert saved == emulator_quirks.PERSISTED_SERVICES
        restarted = Cloud.start(folder, bind(0), lock)
        try:
            restarted.wait_until_up()
            endpoint = Endpoint(restarted.endpoint)
            stack = endpoint.client("cloudformation").describe_stacks(StackName="half")["Stacks"][0]
            execution = endpoint.client("stepfunctions").describe_execution(executionArn=first["execution"])
        finally:
            restarted.stop(messages.append)
    assert stack["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE"
    assert execution["status"] == "RUNNING"
