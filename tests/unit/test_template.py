"""Rules of AWS for template.yaml that no emulator and no linter checks."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from shardmill.engine.files.keys import DEAD_LETTERS
from shardmill.local.sam_template import load_template
from shardmill.store.operations.dead_letters import KEEP_SECONDS
from support.paths import PROJECT

TEMPLATE: dict[str, Any] = load_template(PROJECT / "template.yaml")
RESOURCES: dict[str, dict[str, Any]] = TEMPLATE["Resources"]
FUNCTIONS = {
    name: resource["Properties"]
    for name, resource in RESOURCES.items()
    if resource["Type"] == "AWS::Serverless::Function"
}


def statements(properties: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for policy in properties.get("Policies", []):
        yield from policy["Statement"]


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def may_send_to(function: str, queue: str) -> bool:
    """Whether a function may send messages to a queue of the template."""
    for statement in statements(FUNCTIONS[function]):
        if "sqs:SendMessage" in listed(statement["Action"]):
            for resource in listed(statement["Resource"]):
                if resource == {"Fn::GetAtt": [queue, "Arn"]} or "Fn::Sub" in resource:
                    return True
    return False


def test_functions_that_send_to_their_own_queue_are_not_stopped_as_a_recursive_loop() -> None:
    """Lambda stops a chain of about 16 invocations through SQS unless the function allows it."""
    looping = set()
    for resource in RESOURCES.values():
        if resource["Type"] == "AWS::Lambda::EventSourceMapping":
            function = resource["Properties"]["FunctionName"]["Ref"]
            [queue, _] = resource["Properties"]["EventSourceArn"]["Fn::GetAtt"]
            if may_send_to(function, queue):
                looping.add(function)
    assert "RunnerFunction" in looping
    assert {name for name, each in FUNCTIONS.items() if each.get("RecursiveLoop") == "Allow"} == looping


def test_no_arn_has_a_fixed_partition() -> None:
    files = [PROJECT / "template.yaml", *(PROJECT / "statemachine").glob("*.json")]
    assert [file.name for file in files if re.search(r"arn:aws[a-z-]*:", file.read_text())] == []


def test_the_stack_name_alone_grants_no_access_to_queues() -> None:
    """`shardmill-*` would also match the queues of a stack `shardmill-prod`."""
    text = json.dumps(TEMPLATE)
    named = re.findall(r"arn:\$\{AWS::Partition\}:sqs:[^\"]*", text)
    assert named
    assert {arn.split("AccountId}:")[1] for arn in named} == {
        "${AWS::StackName}-${Api}-*",
        _LANES,
    }


_LANES = "${AWS::StackName}-${Api}-????????-*"  # the names of queues of pull groups have a hash of eight


@pytest.mark.parametrize("function", ["ApiFunction", "LeaseFunction"])
def test_only_lanes_of_pull_groups_can_be_received_by_presigned_requests(function: str) -> None:
    """The signer of a request needs the permission; a wider one would allow other queues."""
    allowed = [
        resource
        for statement in FUNCTIONS[function]["Policies"][0]["Statement"]
        if "sqs:ReceiveMessage" in listed(statement["Action"])
        for resource in listed(statement["Resource"])
    ]
    dead = {"DeadQueue", "NotifyDeadQueue", "SubmitDeadQueue"}  # read by `shardmill dlq`
    assert {arn["Fn::GetAtt"][0] for arn in allowed if "Fn::GetAtt" in arn} in (dead, set())
    [pattern] = [arn["Fn::Sub"].split("AccountId}:")[1] for arn in allowed if "Fn::Sub" in arn]
    assert pattern == _LANES
    own = [
        resource["Properties"]["QueueName"]["Fn::Sub"]
        for resource in RESOURCES.values()
        if resource["Type"] == "AWS::SQS::Queue"
    ]
    assert len(own) > 5
    plain = re.compile(
        pattern.replace("${AWS::StackName}-${Api}", "mill-api").replace("?", ".").replace("*", ".*")
    )
    for name in own:
        assert not plain.fullmatch(name.replace("${AWS::StackName}-${Api}", "mill-api")), name
    assert plain.fullmatch("mill-api-37a8eec1-high-1")


def test_every_queue_has_the_prefix_that_the_permissions_name() -> None:
    for name, resource in RESOURCES.items():
        if resource["Type"] == "AWS::SQS::Queue":
            assert resource["Properties"]["QueueName"]["Fn::Sub"].startswith("${AWS::StackName}-${Api}-"), (
                name
            )


def test_rules_react_to_events_of_their_own_stack_only() -> None:
    patterns = [
        resource["Properties"]["EventPattern"]
        for resource in RESOURCES.values()
        if resource["Type"] == "AWS::Events::Rule"
    ]
    for properties in FUNCTIONS.values():
        events = properties.get("Events", {}).values()
        patterns += [event["Properties"]["Pattern"] for event in events if event["Type"] == "EventBridgeRule"]
    assert patterns
    for pattern in patterns:
        detail = pattern["detail"]
        if pattern["source"] == ["shardmill"]:
            assert detail["stack"] == [{"Ref": "AWS::StackName"}]
        else:
            assert {"Ref": "JobMachine"} in detail["stateMachineArn"]


def test_resources_that_write_are_deleted_before_the_custom_resource_that_cleans_up() -> None:
    """CloudFormation deletes a resource before those it depends on."""
    before = {name for name, resource in RESOURCES.items() if "Setup" in listed(resource.get("DependsOn"))}
    assert before == set(FUNCTIONS) - {"SetupFunction", "AuthorizerFunction", "OrchestrateFunction"}
    assert set(listed(RESOURCES["Setup"]["DependsOn"])) == {"JobMachineAliaslive", "StepMachineAliaslive"}


def test_the_policy_that_denies_new_objects_stays_until_the_bucket_is_deleted() -> None:
    """CloudFormation would delete it after the bucket was emptied, and before the bucket."""
    assert RESOURCES["BucketPolicy"]["DeletionPolicy"] == "Retain"


def of_type(kind: str) -> dict[str, dict[str, Any]]:
    return {name: each["Properties"] for name, each in RESOURCES.items() if each["Type"] == kind}


def test_executions_start_through_the_alias_of_each_state_machine() -> None:
    """An update publishes a version. Functions that start executions are updated after the alias exists."""
    variables = TEMPLATE["Globals"]["Function"]["Environment"]["Variables"]
    versions = of_type("AWS::StepFunctions::StateMachineVersion")
    aliases = of_type("AWS::StepFunctions::StateMachineAlias")
    assert {each["Name"] for each in aliases.values()} == {variables["SHARDMILL_MACHINE_ALIAS"]}
    chosen = [
        versions[each["DeploymentPreference"]["StateMachineVersionArn"]["Ref"]] for each in aliases.values()
    ]
    machines = [each["StateMachineArn"]["Ref"] for each in chosen]
    assert sorted(machines) == sorted(of_type("AWS::Serverless::StateMachine"))
    revisions = [each["StateMachineRevisionId"]["Fn::GetAtt"] for each in chosen]
    assert revisions == [[machine, "StateMachineRevisionId"] for machine in machines]
    assert set(RESOURCES["Setup"]["DependsOn"]) == set(aliases)


def test_versions_of_state_machines_outlive_their_replacement() -> None:
    """Aliases are eventually consistent, so that an execution can start on the version before the latest."""
    kept = [each for each in RESOURCES.values() if each["Type"] == "AWS::StepFunctions::StateMachineVersion"]
    assert len(kept) == 2
    assert {each["UpdateReplacePolicy"] for each in kept} == {"Retain"}


_ROUTE_PART = re.compile(r"\{[\w.:-]+\+?\}|[a-zA-Z0-9.:_-]+")
"""What API Gateway accepts as a part of a route's path. Its error message names this expression."""


def test_api_gateway_accepts_the_paths_of_the_routes() -> None:
    keys = [each["RouteKey"] for each in of_type("AWS::ApiGatewayV2::Route").values()]
    paths = [key.partition(" ")[2] for key in keys if key != "$default"]
    assert "/v1/work:lease" in paths
    for path in paths:
        parts = [] if path == "/" else path.removeprefix("/").split("/")
        assert all(_ROUTE_PART.fullmatch(part) for part in parts), path
        assert not any("+" in part for part in parts[:-1]), path


def test_resources_depend_on_resources_of_the_template_itself() -> None:
    """AWS::LanguageExtensions processes the template before SAM adds resources to it."""
    named = {each for resource in RESOURCES.values() for each in listed(resource.get("DependsOn", []))}
    assert "Setup" in named
    assert named <= RESOURCES.keys()


def test_permissions_and_events_name_state_machines_without_the_alias() -> None:
    """Step Functions authorizes a call with an alias by the ARN without it; its events have both."""
    policies = json.dumps([list(statements(properties)) for properties in FUNCTIONS.values()])
    named = set(re.findall(r"stateMachine:\$\{AWS::StackName\}-[^\"]*", policies))
    assert named == {"stateMachine:${AWS::StackName}-job", "stateMachine:${AWS::StackName}-step"}
    [event] = FUNCTIONS["ExecutionFailedFunction"]["Events"].values()
    expected = [{"Ref": "JobMachine"}, {"Ref": "StepMachine"}]
    assert event["Properties"]["Pattern"]["detail"]["stateMachineArn"] == expected


def test_the_tick_runs_in_every_minute_of_the_clock() -> None:
    """A rate would count from the creation of the rule."""
    [schedule] = [each for each in FUNCTIONS["TickFunction"]["Events"].values() if each["Type"] == "Schedule"]
    assert schedule["Properties"]["Schedule"] == "cron(* * * * ? *)"


def test_the_custom_resource_answers_before_cloudformation_gives_up() -> None:
    timeout = FUNCTIONS["SetupFunction"]["Timeout"]
    assert timeout < RESOURCES["Setup"]["Properties"]["ServiceTimeout"] <= 3600


REPAIRED_BY_THE_TICK = {"TickFunction", "ExecutionFailedFunction", "DependencyFunction"}


def invoked_asynchronously() -> set[str]:
    by_events = {name for name, properties in FUNCTIONS.items() if properties.get("Events")}
    permitted = {
        resource["Properties"]["FunctionName"]["Ref"]
        for resource in RESOURCES.values()
        if resource["Type"] == "AWS::Lambda::Permission"
        and resource["Properties"]["Principal"] == "events.amazonaws.com"
    }
    return by_events | permitted


def test_every_function_that_is_invoked_asynchronously_keeps_what_fails() -> None:
    assert invoked_asynchronously() > REPAIRED_BY_THE_TICK
    for name in invoked_asynchronously() - REPAIRED_BY_THE_TICK:
        destination = FUNCTIONS[name]["EventInvokeConfig"]["DestinationConfig"]["OnFailure"]
        [queue, _] = destination["Destination"]["Fn::GetAtt"]
        assert (destination["Type"], RESOURCES[queue]["Type"]) == ("SQS", "AWS::SQS::Queue"), name


def test_a_function_may_send_what_fails_to_its_destination() -> None:
    """Lambda uses the role of the function. The emulators do not add the permission that SAM adds."""
    for name, properties in FUNCTIONS.items():
        failed = properties.get("EventInvokeConfig", {}).get("DestinationConfig", {}).get("OnFailure")
        if failed:
            assert may_send_to(name, failed["Destination"]["Fn::GetAtt"][0]), name


def test_late_ticks_are_dropped() -> None:
    assert FUNCTIONS["TickFunction"]["EventInvokeConfig"] == {
        "MaximumRetryAttempts": 0,
        "MaximumEventAgeInSeconds": 120,
    }


def test_events_that_eventbridge_cannot_send_go_to_the_dead_letter_queue() -> None:
    rules = {name: each for name, each in RESOURCES.items() if each["Type"] == "AWS::Events::Rule"}
    policies = [each["Properties"] for each in RESOURCES.values() if each["Type"] == "AWS::SQS::QueuePolicy"]
    for name, rule in rules.items():
        for target in rule["Properties"]["Targets"]:
            [queue, _] = target["Arn"]["Fn::GetAtt"]
            redrive = RESOURCES[queue]["Properties"]["RedrivePolicy"]
            assert target["DeadLetterConfig"]["Arn"] == redrive["deadLetterTargetArn"]
            [dead, _] = target["DeadLetterConfig"]["Arn"]["Fn::GetAtt"]
            [policy] = [each for each in policies if each["Queues"] == [{"Ref": dead}]]
            [statement] = policy["PolicyDocument"]["Statement"]
            assert statement["Condition"]["ArnEquals"]["aws:SourceArn"] == {"Fn::GetAtt": [name, "Arn"]}


ALARMS = {
    name: each["Properties"] for name, each in RESOURCES.items() if each["Type"] == "AWS::CloudWatch::Alarm"
}


def alarm_metrics(alarm: dict[str, Any]) -> list[dict[str, Any]]:
    """The metrics of an alarm, without expressions."""
    if "MetricName" in alarm:
        return [alarm]
    return [metric["MetricStat"]["Metric"] for metric in alarm["Metrics"] if "MetricStat" in metric]


def test_an_alarm_watches_every_queue_of_dead_letters() -> None:
    watched = {
        metric["Dimensions"][0]["Value"]["Fn::GetAtt"][0]
        for metric in alarm_metrics(ALARMS["DeadLettersAlarm"])
    }
    assert watched == {name for name in RESOURCES if name.endswith("DeadQueue")}


def test_alarms_and_dashboard_are_off_by_default() -> None:
    conditions = TEMPLATE["Conditions"]
    for name in ALARMS:
        condition = RESOURCES[name]["Condition"]
        assert condition == "HasAlarms" or {"Condition": "HasAlarms"} in conditions[condition]["Fn::And"], (
            name
        )
    assert conditions["HasAlarms"] == {"Fn::Not": [{"Fn::Equals": [{"Ref": "AlarmTopic"}, ""]}]}
    assert TEMPLATE["Parameters"]["AlarmTopic"]["Default"] == ""
    assert RESOURCES["StackDashboard"]["Condition"] == "HasDashboard"
    assert TEMPLATE["Parameters"]["Dashboard"]["Default"] == "false"


def test_the_api_function_has_an_address_of_its_own_only_on_demand() -> None:
    parameter, condition = TEMPLATE["Parameters"]["AweFunctionUrl"], "HasAweFunctionUrl"
    assert parameter["Default"] == "false"
    assert TEMPLATE["Conditions"][condition] == {"Fn::Equals": [{"Ref": "AweFunctionUrl"}, "true"]}
    public = {
        name
        for name, each in RESOURCES.items()
        if each["Type"] == "AWS::Lambda::Url" or each["Properties"].get("Principal") == "*"
    }
    assert public == {"AweUrl", "AweUrlPermission", "AweUrlInvokePermission"}
    assert {RESOURCES[name]["Condition"] for name in public} == {condition}
    assert TEMPLATE["Outputs"]["AweUrl"]["Condition"] == condition


def test_alarms_obey_the_limits_of_cloudwatch() -> None:
    for name, alarm in ALARMS.items():
        metrics = alarm_metrics(alarm)
        assert len(metrics) <= 10, name
        assert "SEARCH" not in json.dumps(alarm), name
        assert alarm["AlarmActions"] == [{"Ref": "AlarmTopic"}], name
        returned = [each for each in alarm.get("Metrics", []) if each.get("ReturnData", True)]
        assert len(returned) == ("Metrics" in alarm), name
        assert (
            len({each["MetricStat"]["Period"] for each in alarm.get("Metrics", []) if "MetricStat" in each})
            < 2
        )


def test_the_docs_name_every_alarm_and_what_they_cost() -> None:
    page = (PROJECT / "docs/operations.md").read_text()
    documented = set(re.findall(r"^\| `([a-z-]+)` \|", page.split("## Set alarms")[1].split("## ")[0], re.M))
    names = {alarm["AlarmName"]["Fn::Sub"].removeprefix("${AWS::StackName}-") for alarm in ALARMS.values()}
    assert documented == names
    total = sum(len(alarm_metrics(alarm)) for alarm in ALARMS.values())
    assert f"each of their {total} metrics" in page


def test_the_alarm_about_waiting_tasks_finds_the_queues_of_every_group() -> None:
    [query] = ALARMS["QueueAgeAlarm"]["Metrics"]
    text = query["Expression"]["Fn::Sub"]
    for tag in ("shardmill:deployment", "shardmill:group"):
        assert f'tag."{tag}"' in text
        assert f'"{tag}":' in (PROJECT / "layers/core/python/shardmill/aws/queues.py").read_text()
    tags = {tag["Key"]: tag["Value"] for tag in RESOURCES["LambdaNormalQueue"]["Properties"]["Tags"]}
    assert tags == {
        "shardmill:deployment": {"Fn::Sub": "${AWS::StackName}-${Api}"},
        "shardmill:group": "lambda",
    }


def test_the_dashboard_is_json_and_names_existing_functions() -> None:
    body = RESOURCES["StackDashboard"]["Properties"]["DashboardBody"]["Fn::Sub"]
    assert len(json.loads(body)["widgets"]) > 5
    named = {
        properties["FunctionName"]["Fn::Sub"]
        for name, properties in FUNCTIONS.items()
        if name != "SetupFunction"
    }
    assert set(re.findall(r'"FunctionName","([^"]+)"', body)) == named


def test_every_request_is_logged_without_headers_and_queries() -> None:
    settings = RESOURCES["ApiStage"]["Properties"]["AccessLogSettings"]
    fields = json.loads(settings["Format"])
    assert {"requestId", "status", "path", "latency"} <= fields.keys()
    assert not re.search(r"header|query|authorizer\.(?!error)", settings["Format"], re.I)


def test_every_log_group_is_deleted_with_the_stack_and_has_a_retention() -> None:
    groups = [each for each in RESOURCES.values() if each["Type"] == "AWS::Logs::LogGroup"]
    assert len(groups) == 2
    for group in groups:
        assert group["Properties"]["RetentionInDays"] == {"Ref": "LogRetentionDays"}
        assert group["DeletionPolicy"] == "Delete"


def test_the_payload_of_a_dead_letter_is_kept_longer_than_its_row() -> None:
    rules = RESOURCES["Bucket"]["Properties"]["LifecycleConfiguration"]["Rules"]
    [days] = [rule["ExpirationInDays"] for rule in rules if rule.get("Prefix") == f"{DEAD_LETTERS}/"]
    assert days * 86_400 > KEEP_SECONDS + 7 * 86_400  # DynamoDB deletes expired items within days


def test_the_state_machines_use_exactly_the_substitutions_that_the_template_makes() -> None:
    machines = [each for each in RESOURCES.values() if each["Type"] == "AWS::Serverless::StateMachine"]
    assert machines
    for machine in machines:
        text = (PROJECT / machine["Properties"]["DefinitionUri"]).read_text()
        substituted = set(machine["Properties"]["DefinitionSubstitutions"])
        assert set(re.findall(r"\$\{(\w+)\}", text)) == substituted, machine["Properties"]["DefinitionUri"]


def test_state_machines_write_types_whose_names_are_the_same_in_every_sdk() -> None:
    """Integrations of AWS SDKs spell `BOOL`, `NULL`, `SS` and `NS` as `Bool`, `Null`, `Ss` and `Ns`."""
    states = json.loads((PROJECT / "statemachine/step.asl.json").read_text())["States"]
    tasks = [each["Parameters"] for each in states.values() if "aws-sdk:dynamodb" in each.get("Resource", "")]
    assert set(re.findall(r'"([A-Z]+)(?:\.\$)?":', json.dumps(tasks))) == {"S", "N"}


def test_the_page_about_aws_names_every_parameter() -> None:
    page = (PROJECT / "docs/aws.md").read_text()
    missing = {name for name in TEMPLATE["Parameters"] if f"`{name}`" not in page}
    assert missing == {"NotifyLoopback"}  # of the laptop cloud


def test_every_parameter_has_a_description_and_rejects_invalid_values() -> None:
    constraints = {"AllowedPattern", "AllowedValues", "MinValue", "MinLength"}
    free = {name for name, each in TEMPLATE["Parameters"].items() if not constraints & each.keys()}
    assert free == {"AllowHosts", "OidcClientId", "OidcClientScopes"}
    assert [name for name, each in TEMPLATE["Parameters"].items() if not each["Description"]] == []


def test_the_variables_of_a_function_fit_into_four_kilobytes() -> None:
    """Lambda's limit; the other values that a deployment sets have about a hundred characters."""
    queue = len("https://sqs.ap-southeast-1.amazonaws.com/123456789012/") + 46 + 11 + len("-lambda-normal")
    shared = TEMPLATE["Globals"]["Function"]["Environment"]["Variables"]

    def size(value: Any) -> int:
        text = json.dumps(value)
        if "Queue" in text:
            return queue * (3 if "Fn::If" in text else 1)
        if "arn:" in text or "StackId" in text:
            return 150
        return 100 if isinstance(value, dict) else len(str(value))

    for name, properties in FUNCTIONS.items():
        variables = {**shared, **properties.get("Environment", {}).get("Variables", {})}
        assert sum(len(each) + size(variables[each]) for each in variables) < 4096, name


def longest(value: Any) -> Any:
    """A value of a policy with names as long as they can be."""
    if isinstance(value, list):
        return [longest(each) for each in value]
    if not isinstance(value, dict):
        return value
    if "Fn::Sub" in value:
        return re.sub(r"\$\{[^}]+\}", "x" * 64, value["Fn::Sub"])
    if "Fn::If" in value:
        return max((longest(each) for each in value["Fn::If"][1:]), key=len)
    if value.keys() & {"Ref", "Fn::GetAtt"}:
        return "x" * 150
    return {name: longest(value[name]) for name in value}


def test_policies_fit_into_the_limits_of_iam() -> None:
    """10,240 characters for all inline policies of a role and 6,144 for a managed policy, without spaces."""
    managed = RESOURCES["WorkerPolicy"]["Properties"]["PolicyDocument"]
    assert 1_000 < len(json.dumps(longest(managed), separators=(",", ":"))) < 6_144
    for name, properties in FUNCTIONS.items():
        inline = json.dumps(longest(properties["Policies"]), separators=(",", ":"))
        assert len(inline) + 500 < 10_240, name  # SAM adds a statement for a failure destination


def test_the_template_is_uploaded_and_fits_into_the_limits_of_cloudformation() -> None:
    """Above 51,200 bytes, CloudFormation reads a template from S3 only; `sam deploy` uploads it there."""
    assert (PROJECT / "template.yaml").stat().st_size < 900_000
    assert len(RESOURCES) * 4 < 500  # SAM adds roles, permissions, rules, versions and aliases
    assert len(TEMPLATE["Parameters"]) < 200
    assert max(len(each["Description"]) for each in TEMPLATE["Parameters"].values()) < 4_000
