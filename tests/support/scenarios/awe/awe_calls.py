"""Calls of AWE clients and submitters against a stack on moto, one at a time."""

from __future__ import annotations

import json
from typing import Any

from shardmill.engine.mill import mill
from support.moto.cloud import Cloud
from support.moto.http_api import Answer
from support.scenarios.awe.node_client import BOUNDARY, multipart
from support.waits import run_until

IDLE = ("Server queue is empty", "No eligible workunit found")


def task(name: str = "0", **more: Any) -> dict[str, Any]:
    return {"taskid": name, "cmd": {"name": "true", "args": ""}, **more}


class AweCalls:
    """Calls with one token; None uses the admin's."""

    def __init__(self, cloud: Cloud, token: str | None = None) -> None:
        self.cloud = cloud
        self.token = token or cloud.token

    def send(self, method: str, path: str, body: Any = None, **files: bytes) -> Answer:
        headers = {"authorization": f"CG_TOKEN {self.token}"}
        if files:
            body = multipart({name: (name, content) for name, content in files.items()})
            headers["content-type"] = f"multipart/form-data; boundary={BOUNDARY}"
        return self.cloud.http(method, f"/awe{path}", body, token=None, headers=headers)

    def data(self, method: str, path: str, body: Any = None, **files: bytes) -> Any:
        answer = self.send(method, path, body, **files)
        assert (answer.status, answer.json["status"], answer.json["error"]) == (200, 200, None), answer
        return answer.json["data"]

    def error(self, method: str, path: str, body: Any = None, **files: bytes) -> str:
        answer = self.send(method, path, body, **files)
        assert 400 <= answer.status < 500, answer
        assert (answer.json["status"], answer.json["data"]) == (answer.status, None), answer
        return "; ".join(answer.json["error"])

    def submit(self, *tasks: dict[str, Any], **info: Any) -> Any:
        document = {"info": info, "tasks": list(tasks)}
        return self.data("POST", "/job", upload=json.dumps(document).encode())

    def job(self, job_id: str) -> Any:
        return self.data("GET", f"/job/{job_id}")

    def wait(self, job_id: str, state: str) -> Any:
        """The job, once it is in a state."""
        return self.cloud.run_until(lambda: job if (job := self.job(job_id))["state"] == state else None)

    def wait_for_messages(self, *job_ids: str) -> None:
        """Wait until the first step of each job waits for its tasks, so that their messages were sent."""

        def sent(job_id: str) -> bool:
            step = mill().jobs.step(job_id, 1, 0)
            return step is not None and bool(step.token)

        self.cloud.run_until(lambda: all(map(sent, job_ids)), 30)

    def client(self, group: str = "docker", **profile: Any) -> AweClientCalls:
        document = {"name": "c", "group": group, "apps": ["*"], **profile}
        return AweClientCalls(self, self.data("POST", "/client", profile=json.dumps(document).encode()))


class AweClientCalls:
    """The calls of one registered client."""

    def __init__(self, calls: AweCalls, document: dict[str, Any]) -> None:
        self.calls, self.document, self.id = calls, document, document["id"]

    def refused(self, query: str = "") -> str:
        """The error of a checkout."""
        return self.calls.error("GET", f"/work?client={self.id}&available=1000000{query}")

    def take(self, seconds: float = 10) -> Any:
        """Check out a workunit, as soon as there is one."""

        def poll() -> Any:
            answer = self.calls.send("GET", f"/work?client={self.id}&available=1000000")
            if answer.status == 200:
                return answer.json["data"]
            assert answer.json["error"][0] in IDLE, answer
            return None

        return run_until(poll, seconds)

    def report(self, work: Any, status: str = "done", seconds: int = 7, **logs: bytes) -> Answer:
        query = f"status={status}&client={self.id}&computetime={seconds}&report"
        return self.calls.send("PUT", f"/work/{work['id']}?{query}", **logs)

    def finish(self, work: Any, status: str = "done", **logs: bytes) -> None:
        answer = self.report(work, status, **logs)
        assert answer.status == 200, answer

    def beat(self) -> Any:
        return self.calls.data("GET", f"/client/{self.id}?heartbeat")

    def beat_with(self, *works: str) -> Any:
        body = {"healthy": True, "error_message": "", "busy": bool(works), "current_work": {"data": works}}
        return self.calls.data("PUT", f"/client/{self.id}?heartbeat", body)
