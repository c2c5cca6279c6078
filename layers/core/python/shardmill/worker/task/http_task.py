"""Tasks that send an HTTP request; the program is guarded_http.py in an interpreter of its own."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from shardmill.model.definition import step_types
from shardmill.worker import guarded_http
from shardmill.worker.outcome import AttemptOutcome, ProcessExit, TaskRejected, outcome_of
from shardmill.worker.task.programs import Program, ProgramContext

_SCRIPT = str(Path(guarded_http.__file__))
_TIMEOUT_SECONDS = 300


def http_program(context: ProgramContext) -> Program:
    content = step_types.http(context.lease.content)
    if not guarded_http.allowed(content.url, context.allow_hosts):
        host = urlsplit(content.url).hostname
        raise TaskRejected(
            f"this worker may not send requests to {host}: start a worker with --allow-host {host} "
            "(for the group lambda, set the stack parameter AllowHosts)"
        )
    request = {
        **content.model_dump(),
        "allowHosts": list(context.allow_hosts),
        "timeoutSeconds": context.lease.timeout_seconds or _TIMEOUT_SECONDS,
    }
    path = context.task_dir.write("request.json", json.dumps(request))
    environ = context.environ("SSL_CERT_FILE", "SSL_CERT_DIR")
    return Program([context.programs.python, "-I", _SCRIPT, str(path)], environ, explain=_last_line)


def _last_line(ended: ProcessExit, stderr: str) -> AttemptOutcome | None:
    """Use the message of the program as the reason."""
    lines = stderr.strip().splitlines()
    return replace(outcome_of(ended), reason=lines[-1]) if ended.code > 0 and lines else None
