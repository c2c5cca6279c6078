"""Run a handler in a process like Lambda's: its variables, a read-only file system, /tmp, limited memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

from support.paths import PROJECT

VARIABLES = {
    "AWS_EXECUTION_ENV": "AWS_Lambda_python3.13",
    "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1024",
    "AWS_LAMBDA_FUNCTION_NAME": "shardmill-runner",
    "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
    "AWS_LAMBDA_LOG_GROUP_NAME": "/shardmill/shardmill",
    "AWS_LAMBDA_LOG_STREAM_NAME": "2026/01/01/[$LATEST]0",
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_SESSION_TOKEN": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_REGION": "us-east-1",
    "LAMBDA_RUNTIME_DIR": "/var/runtime",
    "LAMBDA_TASK_ROOT": "/var/task",
    "LANG": "en_US.UTF-8",
    "LD_LIBRARY_PATH": "/var/lang/lib:/lib64:/usr/lib64:/var/runtime:/opt/lib",
    "PATH": "/usr/local/bin:/usr/bin:/bin:/opt/bin",
    "TZ": ":UTC",
}
"""The environment of a function; there is no HOME, USER or TMPDIR."""

# All mounts become read-only, but /tmp is new. `unshare` gives the process mounts of its own. What the
# handler needs of the old /tmp, such as a repository that was cloned there, is mounted into the new one.
_READ_ONLY = """
new=/tmp
[ -z "$KEPT" ] || new=/mnt
mount -t tmpfs -o size=512m tmpfs "$new" || exit 90
for each in $KEPT; do
  mkdir -p "$new${each#/tmp}" && mount --bind "$each" "$new${each#/tmp}" || exit 91
  mount -o remount,bind,ro "$new${each#/tmp}" || exit 92
done
[ "$new" = /tmp ] || mount --move "$new" /tmp || exit 93
unset KEPT
while read -r _ place _; do
  case "$place" in /tmp*|/proc*|/sys*|/dev*) ;; *) mount -o remount,bind,ro "$place" 2>/dev/null ;; esac
done < /proc/self/mounts
ulimit -v "$1" && shift && exec "$@"
"""
_START = """
import errno, importlib, json, os, sys
for place in (sys.argv[1], "/var", "/"):
    try:
        open(os.path.join(place, "written"), "w")
    except OSError as error:
        assert error.errno == errno.EROFS, error
    else:
        raise AssertionError(f"{place} can be written")
sys.path[:0] = [sys.argv[1], sys.argv[2]]
os.chdir(sys.argv[1])

class Context:
    function_name = os.environ["AWS_LAMBDA_FUNCTION_NAME"]
    memory_limit_in_mb, aws_request_id = 1024, "request"
    invoked_function_arn = f"arn:aws:lambda:us-east-1:123456789012:function:{function_name}"
    get_remaining_time_in_millis = staticmethod(lambda: 60_000)

answer = importlib.import_module("app").handler(json.load(sys.stdin), Context())
print(json.dumps(answer))
"""


@cache
def reason_not_possible() -> str | None:
    """Why this machine cannot make the sandbox; None if it can."""
    command = ["unshare", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/tmp"]
    try:
        tried = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    except FileNotFoundError:
        return "there is no unshare(1)"
    return None if tried.returncode == 0 else f"no namespaces for mounts: {tried.stderr.strip()}"


def invoke(
    function: str, event: Any, variables: dict[str, str], memory_mb: int
) -> subprocess.CompletedProcess[str]:
    """Invoke functions/<function> once; its answer is the last line of stdout.

    The limit is of address space, which includes reserved stacks of threads: three times the memory."""
    code = PROJECT / "functions" / function
    command = [
        "unshare",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        _READ_ONLY,
        "sh",
        str(3 * memory_mb * 1024),
    ]
    command += [sys.executable, "-c", _START, str(code), str(PROJECT / "layers/core/python")]
    needed = {str(PROJECT), sys.prefix, sys.base_prefix}
    kept = " ".join(each for each in sorted(needed) if each.startswith("/tmp/"))
    return subprocess.run(
        command,
        input=json.dumps(event),
        env=VARIABLES
        | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "KEPT": kept}
        | variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
