"""Which methods a path has, read from the OpenAPI document; only needed to refuse politely."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

EXTRA = {"/openapi.json": ["GET"], "/": ["GET"]}


@cache
def _paths(document: Path) -> list[tuple[re.Pattern[str], list[str]]]:
    paths = {
        path: [m.upper() for m in methods]
        for path, methods in json.loads(document.read_text())["paths"].items()
    }
    return [
        (
            re.compile(
                "".join(
                    "[^/]+" if part.startswith("{") else re.escape(part)
                    for part in re.split(r"(\{\w+\})", path)
                )
            ),
            methods,
        )
        for path, methods in (paths | EXTRA).items()
    ]


def allowed_methods(document: Path, path: str) -> list[str]:
    return sorted({m for pattern, methods in _paths(document) if pattern.fullmatch(path) for m in methods})
