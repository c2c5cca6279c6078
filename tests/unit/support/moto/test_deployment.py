"""A cloud that starts with a copy of an earlier deployment is like a new one."""

import pytest

from support.moto import moto_cloud as module
from support.moto.cloud import Cloud
from support.moto.moto_cloud import moto_cloud

DEFINITION = {"steps": [{"stepName": "only", "type": "noop"}]}


@pytest.fixture(autouse=True)
def first_of_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_deployments", {})


def contents(cloud: Cloud) -> dict[str, object]:
    """What the account contains, as its API answers."""
    clients = cloud.clients
    table, bucket = cloud.environment["SHARDMILL_TABLE"], cloud.environment["SHARDMILL_BUCKET"]
    described = clients.dynamodb.describe_table(TableName=table)["Table"]
    queues = clients.sqs.list_queues()["QueueUrls"]
    machines = clients.stepfunctions.list_state_machines()["stateMachines"]
    rules = clients.events.list_rules()["Rules"]
    return {
        "items": clients.dynamodb.scan(TableName=table)["Count"],
        "indexes": [each["IndexName"] for each in described["GlobalSecondaryIndexes"]],
        "objects": clients.s3.list_objects_v2(Bucket=bucket)["KeyCount"],
        "queues": {
            url: clients.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"][
                "QueueArn"
            ]
            for url in queues
        },
        "machines": [
            clients.stepfunctions.describe_state_machine(stateMachineArn=each["stateMachineArn"])[
                "definition"
            ]
            for each in machines
        ],
        "rules": [
            clients.events.list_targets_by_rule(Rule=rule["Name"])["Targets"][0]["Arn"] for rule in rules
        ],
        "functions": cloud.functions.physical,
        "environment": cloud.environment,
    }


def change(cloud: Cloud) -> None:
    assert cloud.http("PUT", "/v1/definitions/a", DEFINITION).status == 201
    cloud.clients.s3.put_object(Bucket=cloud.environment["SHARDMILL_BUCKET"], Key="k", Body=b"v")
    cloud.clients.sqs.create_queue(QueueName="another")


def test_a_restored_cloud_contains_what_the_deployment_created() -> None:
    with moto_cloud() as cloud:
        deployed = contents(cloud)
        change(cloud)
    with moto_cloud() as cloud:
        assert contents(cloud) == deployed
        change(cloud)
    with moto_cloud() as cloud:
        assert contents(cloud) == deployed


def test_a_job_runs_in_a_restored_cloud() -> None:
    with moto_cloud():
        pass
    with moto_cloud() as cloud:
        assert cloud.http("PUT", "/v1/definitions/a", DEFINITION).status == 201
        assert cloud.http("POST", "/v1/jobs", {"jobName": "a", "trigger": "t"}).status == 202
        state = "/v1/jobs/a/t/steps/only"
        assert cloud.run_until(lambda: cloud.http("GET", state).json["state"] == "READY", 60)


def test_other_parameters_are_another_deployment() -> None:
    with moto_cloud() as cloud:
        usual = cloud.environment
    with moto_cloud(parameters={"ApplicationJobs": "7"}) as cloud:
        assert cloud.environment != usual
