"""The program of a task, by its type."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from shardmill.model.definition import step_types
from shardmill.model.definition.command import Command
from shardmill.worker.outcome import InvalidTask, TaskRejected
from shardmill.worker.task import python_task
from shardmill.worker.task.containers import in_container
from shardmill.worker.task.environment import MAX_VALUE_BYTES
from shardmill.worker.task.http_task import http_program
from shardmill.worker.task.programs import Program, ProgramContext, program_arguments

_PYTHON_SCRIPT = str(Path(python_task.__file__))
_HADOOP_SETTINGS = (
    *("JAVA_HOME", "HADOOP_HOME", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "HIVE_HOME", "HIVE_CONF_DIR"),
    "TEZ_CONF_DIR",
)


def program(context: ProgramContext) -> Program:
    """The program of a task. Raises TaskRejected, InvalidTask or ContentError."""
    type_ = context.lease.type
    make = _PROGRAMS.get(type_)
    if not make:
        raise TaskRejected(f"this worker does not run tasks of type {type_}")
    return make(context)


def _shell(context: ProgramContext) -> Program:
    text = step_types.shell(context.lease.content)
    shell = context.programs.shell
    if _is_long(text):
        return Program([shell, str(context.task_dir.write("script", text))], context.environ())
    return Program([shell, "-c", text], context.environ())


def _python(context: ProgramContext) -> Program:
    function = step_types.python(context.lease.content)
    given = context.lease.environ.get("PYTHONPATH")
    path = ":".join([*([given] if given else []), *context.programs.python_path])
    argv = [context.programs.python, "-P", _PYTHON_SCRIPT, function]
    return Program(argv, context.environ(PYTHONPATH=path))


def _command(context: ProgramContext) -> Program:
    command = context.lease.command
    if not command:
        raise InvalidTask("a task of type command needs a command with a name")
    if command.dockerimage:
        return _command_in_docker(context, command)
    return Program([command.name, *program_arguments(context, command)], context.environ())


def _java(context: ProgramContext) -> Program:
    args = step_types.java(context.lease.content)
    return Program([context.programs.path("java"), *args], context.environ("JAVA_HOME"))


def _mapreduce(context: ProgramContext) -> Program:
    args = step_types.mapreduce(context.lease.content)
    return Program([context.programs.path("hadoop"), "jar", *args], context.environ(*_HADOOP_SETTINGS))


def _hive(context: ProgramContext) -> Program:
    content = step_types.hive(context.lease.content)
    hive = context.programs.path("hive")
    pairs = [f"{name}={value}" for name, value in content.hiveconf.items()]
    settings = [arg for pair in pairs for arg in ("--hiveconf", pair)]
    if content.file is not None:
        source = ["-f", content.file]
    elif _is_long(query := content.query or ""):
        source = ["-f", str(context.task_dir.write("query.hql", query))]
    else:
        source = ["-e", query]
    return Program([hive, *settings, *source], context.environ(*_HADOOP_SETTINGS))


def _docker(context: ProgramContext) -> Program:
    if context.lease.command and context.lease.content is None:
        return _command_in_docker(context, context.lease.command)
    image, args = step_types.docker(context.lease.content)
    return in_container(context, image, args)


def _command_in_docker(context: ProgramContext, command: Command) -> Program:
    image, _ = step_types.docker({"image": command.dockerimage})
    return in_container(context, image, [command.name, *program_arguments(context, command)])


_PROGRAMS: dict[str, Callable[[ProgramContext], Program]] = {
    "shell": _shell,
    "python": _python,
    "command": _command,
    "java": _java,
    "hive": _hive,
    "mapreduce": _mapreduce,
    "docker": _docker,
    "http": http_program,
}


def _is_long(text: str) -> bool:
    return len(text.encode()) > MAX_VALUE_BYTES
