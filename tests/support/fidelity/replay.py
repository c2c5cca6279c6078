"""Send recorded requests to DynamoDB Local, in their order, and report where its answers differ."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.fidelity.comparison import outcome, refused_item, stored_item, without_newer_parameters
from support.fidelity.judge import Judge

KEY = ("pk", "sk")
MAX_TRANSACTION = 10
"""The most items of a transaction in DynamoDB Local of 2020."""


@dataclass(frozen=True)
class Difference:
    recording: str
    line: int
    operation: str
    request: dict[str, Any]
    recorded: Any
    judged: Any

    def __str__(self) -> str:
        lines = (
            f"{self.recording}, line {self.line}: {self.operation}",
            f"  request   {json.dumps(self.request)}",
            f"  recorded  {self.recorded}",
            f"  DynamoDB  {self.judged}",
        )
        return "\n".join(line[:2000] for line in lines)


@dataclass
class Replay:
    """Counts requests. A recording is left at its first difference, which may cause others."""

    judge: Judge
    requests: int = 0
    compared: int = 0
    _sorts: dict[str | None, str] = field(default_factory=dict)

    def run(self, file: Path) -> Difference | None:
        """Replay one recording in an empty table; return the first difference."""
        tables: list[str] = []
        try:
            with file.open() as lines:
                for number, line in enumerate(lines, 1):
                    entry = json.loads(line)
                    if entry["operation"] == "CreateTable":
                        tables.append(entry["request"]["TableName"])
                        self._sorts = _sort_keys(entry["request"])
                    for recorded, judged in self._answers(entry):
                        if recorded != judged:
                            asked = entry["operation"], entry["request"]
                            return Difference(file.name, number, *asked, recorded, judged)
        finally:
            for table in tables:
                self.judge.ask("DeleteTable", {"TableName": table})
        return None

    def _answers(self, entry: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
        """Pairs of what was recorded and what DynamoDB Local says."""
        operation, request = entry["operation"], without_newer_parameters(entry["request"])
        self.requests += 1
        if len(request.get("TransactItems", [])) > MAX_TRANSACTION:
            yield from self._large_transaction(entry["status"], request["TransactItems"])
            return
        status, answer = self.judge.ask(operation, request)
        if entry.get("outdated"):
            return
        self.compared += 1
        sort = self._sorts.get(request.get("IndexName")) if operation == "Query" else None
        recorded = outcome(operation, entry["status"], entry["answer"], sort)
        yield recorded, outcome(operation, status, answer, sort)
        returned = refused_item(entry["status"], entry["answer"])
        if returned is not None and entry["request"].get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD":
            key = request.get("Key") or {name: request["Item"][name] for name in KEY}
            wanted = {"TableName": request["TableName"], "Key": key, "ConsistentRead": True}
            yield returned, stored_item(self.judge.ask("GetItem", wanted)[1])

    def _large_transaction(self, status: int, items: list[Any]) -> Iterator[tuple[Any, Any]]:
        """DynamoDB takes 100 items since 2022: the parts of a successful transaction also succeed.

        One that was cancelled is not judged; it changes nothing."""
        if status != 200:
            return
        self.compared += 1
        for at in range(0, len(items), MAX_TRANSACTION):
            part = {"TransactItems": items[at : at + MAX_TRANSACTION]}
            yield {}, outcome("TransactWriteItems", *self.judge.ask("TransactWriteItems", part))


def _sort_keys(table: dict[str, Any]) -> dict[str | None, str]:
    """The sort key of the table (None) and of each index."""
    schemas = {None: table["KeySchema"]}
    schemas |= {index["IndexName"]: index["KeySchema"] for index in table.get("GlobalSecondaryIndexes", [])}
    return {name: schema[1]["AttributeName"] for name, schema in schemas.items()}
