"""Check that functions/ contains entry points only: parse the event, call one use case, answer."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

FUNCTIONS = Path(__file__).parents[1] / "functions"
MAX_LINES = 40
MAX_STATEMENTS = 6
FORBIDDEN = (ast.For, ast.While, ast.With, ast.Try, ast.ClassDef, ast.Lambda, ast.Global)


def faults(path: Path) -> Iterator[str]:
    text = path.read_text()
    tree = ast.parse(text)
    if len(text.splitlines()) > MAX_LINES:
        yield f"has more than {MAX_LINES} lines; move its logic into engine/"
    if not ast.get_docstring(tree):
        yield "has no docstring"
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    if [function.name for function in functions] not in ([], ["handler"]):
        yield "defines more than `handler`"
    for function in functions:
        if len(function.body) > MAX_STATEMENTS:
            yield f"line {function.lineno}: the handler has more than {MAX_STATEMENTS} statements"
    for node in ast.walk(tree):
        if isinstance(node, FORBIDDEN):
            yield f"line {getattr(node, 'lineno', '?')}: {type(node).__name__} is not allowed here"
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
            if any(name.split(".")[0] in ("boto3", "botocore") for name in names):
                yield f"line {node.lineno}: only aws/ and store/ may call AWS"


def main() -> int:
    bad = 0
    for folder in sorted(FUNCTIONS.iterdir()):
        files = sorted(path.name for path in folder.iterdir() if path.name != "__pycache__")
        found = [] if files == ["app.py"] else [f"has {', '.join(files)}; only app.py belongs there"]
        found += faults(folder / "app.py")
        for fault in found:
            sys.stderr.write(f"functions/{folder.name}/app.py: {fault}\n")
            bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
