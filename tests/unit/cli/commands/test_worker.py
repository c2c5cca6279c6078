"""worker as a process."""

import json
import os
import pwd
from pathlib import Path
from typing import Any

from shardmill.model.worker import Lease
from support.command_process import environment, run_on_terminal, run_process
from support.fakes.api import FakeApi, Reply, worker
from support.fakes.leases import a_lease


def with_work(api: FakeApi, *leases: Lease) -> None:
    """Let the API lease these tasks to one worker, and then none."""
    items = [lease.model_dump(mode="json") | {"environ": {}} for lease in leases]
    reported = [{"taskId": each.task_id, "attempt": 1, "status": "ok"} for each in leases]
    api.on("POST", "/v1/workers", Reply(worker("w", groups=["default"]), 201))
    api.on("POST", "/v1/workers/w:heartbeat", {"status": 3, "heartbeatSeconds": 20})
    api.on("POST", "/v1/work:lease", *({"items": [item]} for item in items), {"items": []})
    api.on("POST", "/v1/work:report", *({"items": [one]} for one in reported))


def results(api: FakeApi) -> list[dict[str, Any]]:
    return [
        one for each in api.requests if each.path == "/v1/work:report" for one in each.document["results"]
    ]


def test_once_runs_available_tasks_and_prints_json(api: FakeApi, tmp_path: Path) -> None:
    with_work(api, a_lease(content="exit 3"), a_lease("noop", rank=8))
    with api.served() as url:
        options = ("--once", "--json", "--log-format", "json", "--metrics-port", "0", "--domain", "d")
        own_temp = {
            "TMPDIR": str(tmp_path)
        }  # without it, the worker removes the folders of other tests' killed workers
        found = run_process("worker", *options, env=environment(url) | own_temp)
    assert found.returncode == 0
    assert [(one["outcome"], one.get("exitCode")) for one in results(api)] == [("failed", 3), ("success", 0)]
    printed = [json.loads(line) for line in found.stdout.splitlines()]
    assert [(one["event"], one["index"]) for one in printed] == [
        ("started", 7),
        ("ended", 7),
        ("started", 8),
        ("ended", 8),
    ]
    logged = [json.loads(line) for line in found.stderr.splitlines()]
    assert [one["action"] for one in logged] == ["metrics", "registered", "task-failed", "offline"]
    assert logged[0]["url"].startswith("http://127.0.0.1:")
    assert (logged[2]["attempt"], logged[2]["reason"]) == (1, "exit code 3")
    registration = api.requests[0].document
    assert (registration["domain"], registration["slots"]) == ("d", 1)
    assert logged[0]["url"] == f"http://127.0.0.1:{registration['port']}/metrics"
    assert registration["user"] == pwd.getpwuid(os.geteuid()).pw_name
    assert api.requests[-1].document == {"session": 1, "work": [], "offline": True}


def test_a_worker_registers_with_the_given_options(api: FakeApi) -> None:
    with_work(api)
    machine = ("--instance-id", "i-1", "--instance-type", "m7i", "--domain", "rack-7", "--ip", "10.1.2.3")
    with api.served() as url:
        run_process("worker", "--once", *machine, "--port", "8001", "--subclients", "5", env=environment(url))
    registration = api.requests[0].document
    given = {"instanceId": "i-1", "instanceType": "m7i", "domain": "rack-7", "ip": "10.1.2.3", "port": 8001}
    assert registration | given | {"proxy": True, "subclients": 5} == registration
    refused = run_process("worker", "--ip", "10.1.2", env=environment("http://127.0.0.1:1"))
    assert refused.returncode == 2
    assert "--ip" in refused.stderr
    assert "IPv4" in refused.stderr


def test_a_worker_exits_after_max_tasks(api: FakeApi) -> None:
    with_work(api, *(a_lease(content="echo x", rank=rank) for rank in range(3)))
    with api.served() as url:
        found = run_process("worker", "--max-tasks", "2", env=environment(url))
    assert found.returncode == 0
    assert [one["stdout"] for one in results(api)] == ["x\n", "x\n"]
    assert "registered action=registered worker=w1" in found.stderr


def test_min_disk_rejects_the_task(api: FakeApi) -> None:
    with_work(api, a_lease(content="echo x"))
    with api.served() as url:
        found = run_process("worker", "--once", "--min-disk", "999999999999", env=environment(url))
    assert found.returncode == 0
    [result] = results(api)
    assert result["outcome"] == "rejected"
    assert "--min-disk" in result["reason"]


def test_the_program_of_a_type_is_taken_from_the_environment(api: FakeApi, tmp_path: Path) -> None:
    java = tmp_path / "my-java"
    java.write_text('#!/bin/sh\necho "$@"\n')
    java.chmod(0o755)
    with_work(api, a_lease("java", "app.jar --x 1"))
    with api.served() as url:
        assert run_process("worker", "--once", env=environment(url, SHARDMILL_JAVA=str(java))).returncode == 0
    assert [(one["outcome"], one["stdout"]) for one in results(api)] == [("success", "-jar app.jar --x 1\n")]


def test_terminal_shows_running_tasks(api: FakeApi, tmp_path: Path) -> None:
    go_on = tmp_path / "seen"
    content = f"echo 42 copying > $SHARDMILL_PROGRESS; until [ -e {go_on} ]; do sleep 0.05; done"
    with_work(api, a_lease(content=content))

    def watch(screen: bytes) -> None:
        if b"42% copying" in screen:
            go_on.touch()

    with api.served() as url:
        env = environment(url, TERM="xterm", COLUMNS="120")
        code, screen = run_on_terminal("worker", "--once", env=env, watch=watch)
    assert code == 0
    assert "balance/t1 main 7" in screen
    assert "42% copying" in screen
    assert "registered action=registered worker=w1" in screen


def test_metrics_port_in_use_exits_1(api: FakeApi) -> None:
    with_work(api)
    with api.served() as url:
        port = url.rpartition(":")[2]
        found = run_process("worker", "--once", "--metrics-port", port, env=environment(url))
    assert found.returncode == 1
    assert found.stderr.startswith(f"shardmill: cannot serve metrics on port {port}: ")
    assert api.requests == []


def test_missing_connection_exits_1(tmp_path: Path) -> None:
    env = environment(HOME=str(tmp_path))
    found = run_process("worker", "--group", "g", env=env)
    assert found.returncode == 1
    assert "start it on this machine with `shardmill dev`" in found.stderr
    found = run_process("worker", "--group", "g", "--aws", env=env)
    assert found.returncode == 1
    assert found.stderr.startswith("shardmill: SHARDMILL_STACK is not set")
