"""Tasks in containers, through the command line of docker or of what behaves like it."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import PurePosixPath

from shardmill.worker.task import environment
from shardmill.worker.task.outcome import Ended, Faulty, Finding
from shardmill.worker.task.programs import Order, Program
from shardmill.worker.task.users import Identity

_WORK, _TOLD = PurePosixPath("/work"), PurePosixPath("/told")
_NOT_RUN = 125
"""The exit code of `docker run` when docker itself failed."""

_ASK_SECONDS = 20.0
_SETTINGS = (
    *("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY"),
    "XDG_RUNTIME_DIR",
)
_OTHER_IDS = re.compile(r"^\s*(rootless(: true)?|userns)\s*$", re.MULTILINE)
"""A user's number is not the same inside: in the words of `docker info`, and of podman's."""

# These would change what docker's own command line does.
_NOT_FOR_DOCKER = re.compile(
    r"(PATH|HOME|(XDG|DOCKER|LD|OTEL)_.*|SSL_CERT_(FILE|DIR)|GO(DEBUG|GC|MAXPROCS|MEMLIMIT|TRACEBACK)"
    r"|.*_PROXY|.*_proxy)\Z"
)


def in_container(order: Order, image: str, words: Sequence[str]) -> Program:
    """`docker run` with the task's folders mounted; values of variables are never on the command line."""
    docker = order.programs.path("docker")
    place = order.place
    name = f"shardmill-{place.folder.name}"
    given = order.given(_TOLD)
    by_file = {key: value for key, value in given.items() if _NOT_FOR_DOCKER.match(key)}
    by_name = {key: value for key, value in given.items() if key not in by_file}
    variables = [word for key in by_name for word in ("-e", key)]
    if by_file:
        variables += ["--env-file", str(place.write("environ", _env_file(by_file)))]
    user = _user(docker, place.user)
    if not user:  # the image may have a user of its own; the folder around keeps everyone else out
        for path in (place.work, place.told, *place.told.iterdir()):
            path.chmod(0o777)
    mounts = ["-v", f"{place.work}:{_WORK}", "-v", f"{place.told}:{_TOLD}", "-w", str(_WORK)]

    def explain(ended: Ended, _: str) -> Finding | None:
        return _no_engine(docker) if ended.code == _NOT_RUN else None

    return Program(
        [docker, "run", "--rm", "--name", name, *mounts, *user, *variables, image, *words],
        {**environment.inherited(None, _SETTINGS), **by_name},
        as_worker=True,  # the engine gives the rights; who may speak to it is the worker's affair
        undo=[docker, "rm", "--force", name],
        explain=explain,
    )


def _user(docker: str, user: Identity | None) -> list[str]:
    """The task's user; else the worker's own, who could not remove what another one wrote.

    Root can, and where users have other numbers inside, the worker's would be a stranger's: then the image
    chooses.
    """
    if user:
        return ["--user", f"{user.uid}:{user.gid}"]
    if os.geteuid() == 0 or _has_other_ids(docker):
        return []
    return ["--user", f"{os.geteuid()}:{os.getegid()}"]


def _has_other_ids(docker: str) -> bool:
    try:
        return bool(_OTHER_IDS.search(_about(docker)))
    except (OSError, subprocess.SubprocessError):  # the task itself will meet that, and say so
        return False


@cache
def _about(docker: str) -> str:
    """What an engine says of itself; once it has answered, it is not asked again."""
    asked = _ask(docker, "info")
    asked.check_returncode()
    return asked.stdout.decode(errors="replace")


def _env_file(variables: Mapping[str, str]) -> str:
    for name, value in variables.items():
        if "\n" in value or "\r" in value:
            raise Faulty(f"the environment variable {name!r} must be one line for docker")
    return "".join(f"{name}={value}\n" for name, value in variables.items())


def _no_engine(docker: str) -> Finding | None:
    """Whether docker failed because no engine answers it: then another worker may do better."""
    try:
        asked = _ask(docker, "version", "--format", "{{.Server.Version}}")
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("rejected", f"no docker engine answers on this worker: {error}", _NOT_RUN)
    if asked.returncode == 0:
        return None
    said = asked.stderr.decode(errors="replace").strip() or f"docker version: exit code {asked.returncode}"
    return Finding("rejected", f"no docker engine answers on this worker: {said}", _NOT_RUN)


def _ask(docker: str, *words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [docker, *words], stdin=subprocess.DEVNULL, capture_output=True, timeout=_ASK_SECONDS
    )
