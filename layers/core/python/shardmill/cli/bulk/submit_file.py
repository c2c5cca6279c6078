"""Submit the JobRequests of a file of JSON lines. A request that is refused does not stop the others."""

from __future__ import annotations

import json
import sys
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import typer

from shardmill.cli import output
from shardmill.cli.exits import OTHER

if TYPE_CHECKING:
    from shardmill.model.batch import BatchItem

STDIN = "-"


def submit_requests(file: str, url: str | None, token: str | None, as_json: bool) -> None:
    """Submit each line of a file, or of stdin, and print a summary; exit with code 1 if one is refused."""
    from shardmill.client.client import Client

    counts: Counter[str] = Counter()
    lines: deque[int] = deque()
    with Client(url, token) as client, _open(file) as stream:
        for item in client.submit_batch(_requests(stream, lines, counts)):
            counts[_show(item, lines.popleft(), as_json)] += 1
    output.message(
        f"{counts['submitted']} submitted, {counts['existing']} existed already, {counts['refused']} refused"
    )
    if counts["refused"]:
        raise typer.Exit(OTHER)


def _open(file: str) -> AbstractContextManager[IO[str]]:
    if file == STDIN:
        return nullcontext(sys.stdin)
    try:
        return Path(file).open(encoding="utf-8")
    except OSError as error:
        raise typer.BadParameter(f"cannot read {file}: {error.strerror}", param_hint="--requests") from None


def _requests(stream: IO[str], lines: deque[int], counts: Counter[str]) -> Iterator[Mapping[str, Any]]:
    """Yield the documents of the lines, and append their line numbers to `lines`; empty lines are skipped."""
    for number, line in enumerate(stream, 1):
        if not line.strip():
            continue
        try:
            document = json.loads(line)
        except ValueError as error:
            document = error
        if isinstance(document, dict):
            lines.append(number)
            yield document
        else:
            reason = (
                f"not valid JSON: {document}" if isinstance(document, ValueError) else "not a JSON object"
            )
            output.message(f"line {number}: {reason}")
            counts["refused"] += 1


def _show(item: BatchItem, line: int, as_json: bool) -> str:
    """Print the answer to a request; return the count that it belongs to."""
    if as_json:
        output.json_line({"line": line, **item.model_dump(mode="json", by_alias=True)})
    if item.job:
        if not as_json:
            output.line(f"{item.job.job_name} {item.job.trigger} {item.job.state.value}")
        return "submitted" if item.new else "existing"
    problem = item.problem or {}
    output.message(f"line {line}: {problem.get('detail', item.status)}")
    for fault in problem.get("faults", []):
        output.message(f"  {fault['pointer'] or '(document)'}: {fault['message']}")
    return "refused"
