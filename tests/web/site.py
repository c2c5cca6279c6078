"""The laptop cloud of the dashboard's tests, with definitions and jobs in the states that its views show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import boto3

from support.laptop import Laptop
from support.waits import run_until

HOSTILE = "<img src=x onerror=alert(1)>"
"""HTML in a parameter and in a log, which the page must show and not run."""

DEFINITIONS: dict[str, dict[str, Any]] = {
    "balance-report": {
        "description": "balance of all accounts",
        "params": {"reportDate": "2020-01-21"},
        "steps": [
            {
                "stepName": "generate_files",
                "sharding": 12,
                "type": "shell",
                "content": "echo row {{ shard.index }} > part-{{ shard.index }}.csv",
                "outputs": [{"name": "part-{{ shard.index }}.csv"}],
            },
            {
                "stepName": "merge_files",
                "dependentStep": "generate_files",
                "type": "shell",
                "content": "cat part-*.csv > balance.csv",
                "inputs": [{"name": "part-*.csv", "origin": "generate_files"}],
                "outputs": [{"name": "balance.csv"}],
            },
        ],
    },
    "nightly-load": {
        "params": {"table": "ledger", "broken": "yes"},
        "steps": [
            {"stepName": "extract", "type": "noop", "sharding": 100},
            {
                "stepName": "load",
                "type": "shell",
                "sharding": 4,
                "content": (
                    'test "$broken-{{ shard.index }}" != yes-2 || '
                    f"{{ printf '\\033[31mred\\033[0m {HOSTILE}\\n"
                    "the parameter broken must be no\\n' >&2; exit 3; }; echo loaded"
                ),
                "dependentSteps": ["extract"],
            },
            {"stepName": "publish", "type": "noop", "dependentSteps": ["load"]},
        ],
    },
    "try-twice": {
        "type": "shell",
        "failedRetries": 1,
        "failedInterval": 0,
        "content": 'echo "{\\"rows\\": 12}" > "$SHARDMILL_OUTPUT"; test "$SHARDMILL_ATTEMPT" -eq 2',
    },
    "wait-for-me": {
        "steps": [
            {
                "stepName": "wait",
                "type": "shell",
                "content": "n=0; while [ $n -lt 600 ]; do n=$((n+1)); echo line $n; sleep 0.5; done",
            },
            {"stepName": "after", "type": "noop", "dependentSteps": ["wait"]},
        ],
    },
}


@dataclass(frozen=True)
class Site:
    laptop: Laptop

    @property
    def url(self) -> str:
        return self.laptop.url.rstrip("/")

    def call(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.laptop.request(method, path, body)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def seed(self) -> None:
        for name, document in DEFINITIONS.items():
            self.call("PUT", f"/v1/definitions/{name}", {"jobName": name, **document})
        self.submit("balance-report", "d1")
        self.submit("nightly-load", "n1", params={"note": HOSTILE})
        self.submit("try-twice", "r1")

    def send_dead_letter(self, queue: str, body: str) -> None:
        """Send a message to a dead-letter queue: `dead` of tasks, `notify-dead` of notifications."""
        environ = self.laptop.aws_environ()
        url = environ["SHARDMILL_DEAD_QUEUE"].removesuffix("dead") + queue
        names = {"aws_access_key_id": "AWS_ACCESS_KEY_ID", "aws_secret_access_key": "AWS_SECRET_ACCESS_KEY"}
        keys = {name: environ[variable] for name, variable in names.items()}
        sqs = boto3.client(
            "sqs", endpoint_url=self.laptop.aws_endpoint, region_name=environ["AWS_REGION"], **keys
        )
        sqs.send_message(QueueUrl=url, MessageBody=body)

    def submit(self, job_name: str, trigger: str, **request: Any) -> None:
        self.call("POST", "/v1/jobs", {"jobName": job_name, "trigger": trigger, **request})

    def state(self, job_name: str, trigger: str) -> str:
        return str(self.call("GET", f"/v1/jobs/{job_name}/{trigger}")["state"])

    def wait_for(self, job_name: str, trigger: str, *states: str) -> None:
        run_until(lambda: self.state(job_name, trigger) in states, timeout=40.0, interval=0.1)
