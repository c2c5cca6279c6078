"""Tasks in containers, through the command line of docker or a compatible program."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import PurePosixPath

from shardmill.worker.outcome import AttemptOutcome, InvalidTask, ProcessExit
from shardmill.worker.task import environment
from shardmill.worker.task.programs import Program, ProgramContext
from shardmill.worker.task.users import Identity

_WORK, _CHANNEL = PurePosixPath("/work"), PurePosixPath("/channel")
_DOCKER_FAILED = 125
"""The exit code of `docker run` when docker itself failed."""

_QUERY_SECONDS = 20.0
_SETTINGS = (
    *("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY"),
    "XDG_RUNTIME_DIR",
)
_MAPPED_IDS = re.compile(r"^\s*(rootless(: true)?|userns)\s*$", re.MULTILINE)
"""Occurs in the output of `docker info` or `podman info` if user ids differ inside the container."""

# Variables that would change the behaviour of docker's own command line.
_NOT_FOR_DOCKER = re.compile(
    r"(PATH|HOME|(XDG|DOCKER|LD|OTEL)_.*|SSL_CERT_(FILE|DIR)|GO(DEBUG|GC|MAXPROCS|MEMLIMIT|TRACEBACK)"
    r"|.*_PROXY|.*_proxy)\Z"
)


def in_container(context: ProgramContext, image: str, args: Sequence[str]) -> Program:
    """`docker run` with the task's folders mounted; values of variables are never on the command line."""
    docker = context.programs.path("docker")
    task_dir = context.task_dir
    name = f"shardmill-{task_dir.folder.name}"
    variables = context.task_environ(_CHANNEL)
    by_file = {key: value for key, value in variables.items() if _NOT_FOR_DOCKER.match(key)}
    by_name = {key: value for key, value in variables.items() if key not in by_file}
    options = [arg for key in by_name for arg in ("-e", key)]
    if by_file:
        options += ["--env-file", str(task_dir.write("environ", _env_file(by_file)))]
    user = _user(docker, task_dir.user)
    if not user:  # the image may set any user; the parent folder keeps other users of the machine out
        for path in (task_dir.work, task_dir.channel, *task_dir.channel.iterdir()):
            path.chmod(0o777)
    mounts = ["-v", f"{task_dir.work}:{_WORK}", "-v", f"{task_dir.channel}:{_CHANNEL}", "-w", str(_WORK)]

    def explain(ended: ProcessExit, _: str) -> AttemptOutcome | None:
        return _engine_failure(docker) if ended.code == _DOCKER_FAILED else None

    return Program(
        [docker, "run", "--rm", "--name", name, *mounts, *user, *options, image, *args],
        {**environment.inherited(None, _SETTINGS), **by_name},
        as_worker=True,  # the engine starts the container; only the worker needs access to it
        cleanup=[docker, "rm", "--force", name],
        explain=explain,
    )


def _user(docker: str, user: Identity | None) -> list[str]:
    """The task's user, or the worker's, so that the worker can remove the files that the container wrote.

    The image chooses if the worker is root, which can remove anything, or if ids are mapped.
    """
    if user:
        return ["--user", f"{user.uid}:{user.gid}"]
    if os.geteuid() == 0 or _maps_ids(docker):
        return []
    return ["--user", f"{os.geteuid()}:{os.getegid()}"]


def _maps_ids(docker: str) -> bool:
    try:
        return bool(_MAPPED_IDS.search(_info(docker)))
    except (OSError, subprocess.SubprocessError):  # the task fails in the same way, with a better message
        return False


@cache
def _info(docker: str) -> str:
    """The output of `docker info`; cached once it has succeeded."""
    done = _query(docker, "info")
    done.check_returncode()
    return done.stdout.decode(errors="replace")


def _env_file(variables: Mapping[str, str]) -> str:
    for name, value in variables.items():
        if "\n" in value or "\r" in value:
            raise InvalidTask(f"the environment variable {name!r} must be a single line for docker")
    return "".join(f"{name}={value}\n" for name, value in variables.items())


def _engine_failure(docker: str) -> AttemptOutcome | None:
    """A rejection if no engine responds, as another worker may have one."""
    try:
        done = _query(docker, "version", "--format", "{{.Server.Version}}")
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = str(error)
    else:
        if done.returncode == 0:
            return None
        reason = done.stderr.decode(errors="replace").strip()
        reason = reason or f"docker version: exit code {done.returncode}"
    return AttemptOutcome(
        "rejected", f"the docker engine of this worker does not respond: {reason}", _DOCKER_FAILED
    )


def _query(docker: str, *args: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [docker, *args], stdin=subprocess.DEVNULL, capture_output=True, timeout=_QUERY_SECONDS
    )
