"""Which program a task means: one function a type."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from shardmill.model.definition import step_types
from shardmill.model.definition.command import Command
from shardmill.worker.task import http_task
from shardmill.worker.task.containers import in_container
from shardmill.worker.task.environment import MAX_VALUE_BYTES
from shardmill.worker.task.outcome import Ended, Faulty, Finding, Unrunnable, judge
from shardmill.worker.task.programs import Order, Program, arguments

_CALL = str(Path(__file__).with_name("python_task.py"))
_FETCH = str(Path(http_task.__file__))
_ANSWER_SECONDS = 300
_HADOOP_SETTINGS = (
    *("JAVA_HOME", "HADOOP_HOME", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "HIVE_HOME", "HIVE_CONF_DIR"),
    "TEZ_CONF_DIR",
)


def program(order: Order) -> Program:
    """The program of a task; raises Unrunnable, Faulty or ContentError."""
    kind = order.lease.type
    make = _KINDS.get(kind)
    if not make:
        raise Unrunnable(f"this worker does not run tasks of type {kind}")
    return make(order)


def _shell(order: Order) -> Program:
    text = step_types.shell(order.lease.content)
    shell = order.programs.shell
    if _is_long(text):
        return Program([shell, str(order.place.write("script", text))], order.environ())
    return Program([shell, "-c", text], order.environ())


def _python(order: Order) -> Program:
    function = step_types.python(order.lease.content)
    given = order.lease.environ.get("PYTHONPATH")
    path = ":".join([*([given] if given else []), *order.programs.python_path])
    return Program([order.programs.python, "-P", _CALL, function], order.environ(PYTHONPATH=path))


def _command(order: Order) -> Program:
    command = order.lease.command
    if not command:
        raise Faulty("a task of type command needs a command with a name")
    if command.dockerimage:
        return _in_docker(order, command)
    return Program([command.name, *arguments(command)], order.environ())


def _java(order: Order) -> Program:
    words = step_types.java(order.lease.content)
    return Program([order.programs.path("java"), *words], order.environ("JAVA_HOME"))


def _mapreduce(order: Order) -> Program:
    words = step_types.mapreduce(order.lease.content)
    return Program([order.programs.path("hadoop"), "jar", *words], order.environ(*_HADOOP_SETTINGS))


def _hive(order: Order) -> Program:
    content = step_types.hive(order.lease.content)
    hive = order.programs.path("hive")
    named = [f"{name}={value}" for name, value in content.hiveconf.items()]
    settings = [word for setting in named for word in ("--hiveconf", setting)]
    if content.file is not None:
        source = ["-f", content.file]
    elif _is_long(query := content.query or ""):
        source = ["-f", str(order.place.write("query.hql", query))]
    else:
        source = ["-e", query]
    return Program([hive, *settings, *source], order.environ(*_HADOOP_SETTINGS))


def _docker(order: Order) -> Program:
    if order.lease.command and order.lease.content is None:
        return _in_docker(order, order.lease.command)
    image, words = step_types.docker(order.lease.content)
    return in_container(order, image, words)


def _in_docker(order: Order, command: Command) -> Program:
    image, _ = step_types.docker({"image": command.dockerimage})
    return in_container(order, image, [command.name, *arguments(command)])


def _http(order: Order) -> Program:
    content = step_types.http(order.lease.content)
    if not http_task.allowed(content.url, order.allow_hosts):
        host = urlsplit(content.url).hostname
        raise Unrunnable(
            f"this worker may not ask {host}: start one with --allow-host {host} "
            "(for the group lambda: the stack's parameter AllowHosts)"
        )
    request = {
        **content.model_dump(),
        "allowHosts": list(order.allow_hosts),
        "timeoutSeconds": order.lease.timeout_seconds or _ANSWER_SECONDS,
    }
    path = order.place.write("request.json", json.dumps(request))
    environ = order.environ("SSL_CERT_FILE", "SSL_CERT_DIR")
    return Program([order.programs.python, "-I", _FETCH, str(path)], environ, explain=_last_words)


def _last_words(ended: Ended, said: str) -> Finding | None:
    """The request says itself what went wrong."""
    lines = said.strip().splitlines()
    return replace(judge(ended), reason=lines[-1]) if ended.code > 0 and lines else None


_KINDS: dict[str, Callable[[Order], Program]] = {
    "shell": _shell,
    "python": _python,
    "command": _command,
    "java": _java,
    "hive": _hive,
    "mapreduce": _mapreduce,
    "docker": _docker,
    "http": _http,
}


def _is_long(text: str) -> bool:
    return len(text.encode()) > MAX_VALUE_BYTES
