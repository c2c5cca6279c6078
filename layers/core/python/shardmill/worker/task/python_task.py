"""The program of a python task: calls `module:function`.

It is run by its path in an interpreter that need not have Shardmill, so it uses the standard library only.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import sys
from collections.abc import Callable
from typing import Any

USAGE = 2


def task_of(environ: dict[str, str]) -> dict[str, Any]:
    """The argument of the function, from the environment variables of the task."""

    def text(name: str) -> str:
        return environ.get(f"SHARDMILL_{name}", "")

    def number(name: str) -> int:
        return int(text(name) or 0)

    task: dict[str, Any] = {
        "taskId": text("TASK_ID"),
        "attempt": number("ATTEMPT"),
        "jobName": text("JOB_NAME"),
        "trigger": text("TRIGGER"),
        "jobId": text("JOB_ID"),
        "stepName": text("STEP_NAME"),
        "sharding": {"index": number("SHARD_INDEX"), "total": number("SHARD_TOTAL")},
        "pack": None,
        "params": json.loads(_params(environ) or "{}"),
        "dataTime": text("DATA_TIME") or None,
    }
    if text("PACK_START"):
        task["pack"] = {"start": number("PACK_START"), "end": number("PACK_END")}
    return task


def _params(environ: dict[str, str]) -> str:
    """Read the parameters from the file, as they may be too large for a variable."""
    path = environ.get("SHARDMILL_PARAMS_FILE")
    if not path:
        return environ.get("SHARDMILL_PARAMS", "")
    with open(path, encoding="utf-8") as file:
        return file.read()


def find(spec: str) -> Callable[..., Any]:
    """The function that `module:function` names. Raises LookupError."""
    module_name, _, path = spec.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and f"{module_name}.".startswith(f"{error.name}."):
            raise LookupError(f"module {error.name!r} not found on this worker") from error
        raise
    for part in path.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise LookupError(f"module {module_name!r} has no {path!r}") from None
    if callable(found):
        function: Callable[..., Any] = found
        return function
    raise LookupError(f"{spec!r} is not a function")


def takes_task(function: Callable[..., Any]) -> bool:
    """Whether a function accepts the task: a positional argument."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return False
    positional = (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.VAR_POSITIONAL,
    )
    return any(parameter.kind in positional for parameter in parameters)


def write_output(returned: object, environ: dict[str, str]) -> None:
    """Store the return value as the task's output, unless the function wrote one itself."""
    path = environ.get("SHARDMILL_OUTPUT")
    if returned is None or not path or os.path.lexists(path):
        return
    try:
        text = json.dumps(returned, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        sys.stderr.write(f"the return value is not stored as output: {error}\n")
        return
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def main(spec: str) -> int:
    """Call the function; return its return value as exit code if that is an int, else 0."""
    sys.path.insert(0, os.getcwd())
    environ = dict(os.environ)
    try:
        function = find(spec)
    except LookupError as error:
        sys.stderr.write(f"{error}\n")
        return USAGE
    returned = function(task_of(environ)) if takes_task(function) else function()
    if type(returned) is int:
        return returned
    write_output(returned, environ)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
