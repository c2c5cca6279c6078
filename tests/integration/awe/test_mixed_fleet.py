"""Jobs of `/v1` run on AWE clients, and jobs of AWE documents on other workers of the same group."""

import os
import subprocess
from typing import Any

import pytest

from support.moto.cloud import Cloud
from support.scenarios.awe.awe_calls import AweCalls, task
from support.scenarios.file_worker import FileWorker
from support.scenarios.job_runner import JobRunner


@pytest.fixture
def awe(cloud: Cloud) -> AweCalls:
    return AweCalls(cloud)


def test_a_client_runs_the_commands_and_shell_texts_of_other_jobs(awe: AweCalls, runner: JobRunner) -> None:
    client = awe.client("mixed")
    steps = (
        {"stepName": "shell", "content": "echo {{ params.word }} {{ shard.index }}", "sharding": 2},
        {"stepName": "tool", "command": {"name": "sort", "args": "-r x"}, "dependentStep": "shell"},
    )
    runner.define(*steps, workerGroup="mixed", params={"word": "it's"})
    runner.submit()
    works = [client.take() for _ in range(2)]
    assert {work["rank"] for work in works} == {1, 2}
    for work in works:
        assert (work["cmd"]["name"], work["task_name"]) == ("sh", "shell")
        assert work["cmd"]["args_array"][0] == "-c"
        assert work["cmd"]["args_array"][1].endswith(f" {work['rank'] - 1}")
        assert work["cmd"]["environ"]["public"]["word"] == "it's"
        client.finish(work)
    work = client.take()
    assert (work["cmd"]["name"], work["cmd"]["args"]) == ("sort", "-r x")
    client.finish(work)
    runner.cloud.run_until(runner.ended)
    assert runner.job()["state"] == "SUCCESS"


def test_shell_texts_reach_clients_whole(awe: AweCalls, runner: JobRunner) -> None:
    """Clients split `args` at spaces and single quotes, replace ${VAR}, and drop unknown @names."""
    client = awe.client("mixed")
    text = "X='a  b'; printf '%s|' \"${X}\" me@host\n"
    runner.define({"stepName": "shell", "content": text}, workerGroup="mixed")
    runner.submit()
    command = client.take()["cmd"]
    words = as_clients_split(command["args"])
    environ = {**os.environ, **command["environ"]["public"]}
    done = subprocess.run([command["name"], *words], env=environ, capture_output=True, check=True, timeout=60)
    assert done.stdout == b"a  b|me@host|"
    assert command["args_array"] == ["-c", text]


def as_clients_split(text: str) -> list[str]:
    """Words between spaces; a space between single quotes belongs to its word."""
    assert "@" not in text
    assert "${" not in text
    words = [""]
    quoted = False
    for sign in text:
        if sign == "'":
            quoted = not quoted
        elif sign == " " and not quoted:
            words.append("")
        else:
            words[-1] += sign
    return words


def test_a_client_leaves_other_step_types_to_workers(awe: AweCalls, runner: JobRunner) -> None:
    client = awe.client("mixed")
    step = {"stepName": "py", "type": "python", "content": "json:dumps"}
    runner.define(step, workerGroup="mixed")
    runner.submit()
    runner.cloud.run_until(lambda: runner.states() == {"py": "READY"})
    assert client.refused() == "No eligible workunit found"


def test_a_client_transfers_files_whose_names_depend_on_the_shard(awe: AweCalls, runner: JobRunner) -> None:
    client = awe.client("mixed")
    steps = (
        {"stepName": "make", "content": "x", "sharding": 2, "outputs": [{"name": "p-{{ shard.index }}.txt"}]},
        {
            "stepName": "use",
            "content": "x",
            "dependentStep": "make",
            "sharding": 2,
            "inputs": [{"name": "p-{{ shard.index }}.txt", "origin": "make"}],
        },
    )
    runner.define(*steps, workerGroup="mixed")
    runner.submit()
    nodes = set()
    for _ in range(2):
        work = client.take()
        [output] = work["outputs"]
        assert (output["name"], output["filename"]) == (f"p-{work['rank'] - 1}.txt",) * 2
        nodes.add(output["node"])
        content = f"of rank {work['rank']}\n".encode()
        awe.data("PUT", f"/node/{output['node']}", **{str(work["rank"]): content})
        client.finish(work)
    [node] = nodes
    for _ in range(2):
        work = client.take()
        [found] = work["inputs"]
        assert (found["name"], found["node"]) == (f"p-{work['rank'] - 1}.txt", "-")
        assert FileWorker(runner).read(found["url"]) == f"of rank {work['rank']}\n".encode()
        client.finish(work)
    runner.cloud.run_until(runner.ended)
    assert runner.job()["state"] == "SUCCESS"
    headers = {"authorization": f"OAuth {awe.token}", "user-agent": "Go-http-client/1.1"}
    whole = awe.cloud.http("GET", f"/awe/node/{node}?download", token=None, headers=headers)
    assert whole.text == "of rank 1\nof rank 2\n"


@pytest.mark.parametrize("listed", ["inputs", "outputs"])
def test_a_client_leaves_patterns_of_files_to_workers(awe: AweCalls, runner: JobRunner, listed: str) -> None:
    client = awe.client("mixed")
    file = {"name": "*.txt", "origin": "make"} if listed == "inputs" else {"name": "*.txt"}
    steps = (
        {"stepName": "make", "content": "x", "type": "shell"},
        {"stepName": "use", "content": "x", "dependentStep": "make", listed: [file]},
    )
    runner.define(*steps, workerGroup="mixed")
    runner.submit()
    client.finish(client.take())
    runner.cloud.run_until(lambda: runner.states().get("use") == "READY")
    assert client.refused() == "No eligible workunit found"


def explained(runner: JobRunner) -> list[str]:
    found: list[str] = runner.cloud.http("GET", "/v1/jobs/orders/t1:explain").json["sentences"]
    return found


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ({"outputs": [{"name": "*.txt"}]}, "its files are named by a pattern, '*.txt'"),
        ({"type": "python", "content": "json:dumps"}, "they run no steps of type python"),
    ],
)
def test_why_says_that_a_group_has_only_clients_that_cannot_run_a_step(
    awe: AweCalls, runner: JobRunner, step: dict[str, Any], why: str
) -> None:
    awe.client("mixed")
    runner.define({"stepName": "s", "type": "shell", "content": "x", **step}, workerGroup="mixed")
    runner.submit()
    runner.cloud.run_until(lambda: runner.states() == {"s": "READY"})
    sentence = (
        f"tep s: group mixed has only AWE clients, which cannot run it, because {why}; start a "
        "`shardmill worker` for it"
    )
    assert any(sentence in each for each in explained(runner))
    assert runner.job()["waitingFor"] == [f"s{sentence}"]
    body = {"name": "w", "groups": ["mixed"], "apps": ["*"]}
    assert awe.cloud.http("POST", "/v1/workers", body).status == 201
    assert not any("AWE clients" in each for each in explained(runner))
    assert runner.job()["waitingFor"] == []


def test_another_worker_runs_the_tasks_of_a_document(awe: AweCalls, runner: JobRunner) -> None:
    job = awe.submit(task(cmd={"name": "sort", "args": "-r @x ${HOME}"}, inputs={"x": {"url": "http://d/x"}}))
    [lease] = runner.take(1)
    assert lease.command is not None
    assert (lease.command.name, lease.command.args) == ("sort", "-r @x ${HOME}")
    assert lease.command.expand_variables, "as AWE clients do"
    runner.worker.report([lease])
    found = awe.wait(job["id"], "completed")
    assert found["tasks"][0]["remainwork"] == 0
