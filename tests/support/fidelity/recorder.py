"""Record the requests that moto's DynamoDB answers, in order, for `make fidelity`.

One file for each cloud: a line for each request, as botocore sent it, with moto's answer.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from threading import local
from typing import IO, Any
from unittest.mock import patch

from moto.core import DEFAULT_ACCOUNT_ID
from moto.core.botocore_stubber import BotocoreStubber
from moto.dynamodb.models import dynamodb_backends

REGION = "us-east-1"
_BATCH = 25
_numbers = count(1)
_thread = local()


class Recorder:
    """Writes recordings to `folder`; does nothing while that is None.

    `tests`: the paths below tests/ of the tests that are recorded; None: all."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.tests: Container[str] | None = None
        self._file: IO[str] | None = None
        self._table: dict[str, Any] | None = None

    @contextmanager
    def recording(self) -> Iterator[bool]:
        """Record all requests in the block, if they are wanted, and say so.

        Enter it before `repaired_moto`, which serializes requests."""
        if self.folder is None or not self._wants(os.environ.get("PYTEST_CURRENT_TEST", "")):
            yield False
            return
        original: Callable[..., Any] = BotocoreStubber.process_request

        def process_request(stubber: BotocoreStubber, request: Any) -> Any:
            answer = original(stubber, request)
            target = str(request.headers.get("X-Amz-Target", b""), "ascii") if answer else ""
            if target.startswith("DynamoDB_"):
                self._record(target.split(".")[1], json.loads(request.body), answer[0], json.loads(answer[2]))
            return answer

        self._open()
        try:
            with patch.object(BotocoreStubber, "process_request", process_request):
                yield True
        finally:
            self._close()

    @contextmanager
    def outdated(self) -> Iterator[None]:
        """Requests of this thread are deliberately answered with earlier versions of items."""
        _thread.outdated = True
        try:
            yield
        finally:
            _thread.outdated = False

    def contents_replaced(self) -> None:
        """The test replaced all items without requests: begin another recording, with the new items."""
        if self._file is None or self._table is None:
            return
        self._close()
        self._open()
        self.contents_restored([self._table])

    def contents_restored(self, tables: list[dict[str, Any]]) -> None:
        """Record what creates and fills these tables, which were filled without requests."""
        if self._file is None:
            return
        for request in tables:
            self._record("CreateTable", request, 200, {})
            name = request["TableName"]
            table = dynamodb_backends[DEFAULT_ACCOUNT_ID][REGION].get_table(name)
            puts = [{"PutRequest": {"Item": item.to_json()["Attributes"]}} for item in table.all_items()]
            for at in range(0, len(puts), _BATCH):
                written = {"RequestItems": {name: puts[at : at + _BATCH]}}
                self._record("BatchWriteItem", written, 200, {"UnprocessedItems": {}})

    def _wants(self, test: str) -> bool:
        return self.tests is None or test.split("::")[0].removeprefix("tests/") in self.tests

    def _record(self, operation: str, request: dict[str, Any], status: int, answer: dict[str, Any]) -> None:
        if operation == "CreateTable":
            self._table = request
        line = {"operation": operation, "request": request, "status": status, "answer": answer}
        if getattr(_thread, "outdated", False):
            line["outdated"] = True
        assert self._file is not None
        self._file.write(json.dumps(line) + "\n")

    def _open(self) -> None:
        assert self.folder is not None
        test = re.sub(r"[^\w.-]+", "_", os.environ.get("PYTEST_CURRENT_TEST", "test").split(" ")[0])
        name = f"{test[-150:]}.{os.getpid()}-{next(_numbers)}.jsonl"
        self._file = (self.folder / name).open("w")

    def _close(self) -> None:
        assert self._file is not None
        self._file.close()
        self._file = None


recorder = Recorder()
"""The one of this process; the option --record-dynamodb sets its folder."""
