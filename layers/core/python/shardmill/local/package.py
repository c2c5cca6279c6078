"""Reproducible zip archives of the functions and the layer."""

from __future__ import annotations

import importlib.util
import io
import marshal
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

OUTSIDE_LAMBDA = ("__main__", "cli", "client", "local")
_MOMENT = (1980, 1, 1, 0, 0, 0)
_UNCHECKED = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little")  # PEP 552


def files_of(folder: Path) -> Iterator[tuple[PurePosixPath, bytes]]:
    """The files of a folder in a fixed order, without caches and hidden files."""
    for file in sorted(folder.rglob("*")):
        name = file.relative_to(folder)
        if file.is_file() and not any(part == "__pycache__" or part.startswith(".") for part in name.parts):
            yield PurePosixPath(name), file.read_bytes()


def function_files(folder: Path) -> dict[str, bytes]:
    return {str(name): content for name, content in files_of(folder)}


def layer_files(folder: Path) -> dict[str, bytes]:
    """The package `shardmill` as in the layer on AWS, without third-party packages: `dev` has its own."""
    package = folder / "python" / "shardmill"
    return {
        f"python/shardmill/{name}": content
        for name, content in files_of(package)
        if PurePosixPath(name.parts[0]).stem not in OUTSIDE_LAMBDA
    }


def with_bytecode(files: dict[str, bytes]) -> dict[str, bytes]:
    """Add bytecode, because every Lambda process unpacks the layer and would compile it again."""
    compiled = {}
    for name, source in files.items():
        if name.endswith(".py"):
            code = compile(source, name, "exec", dont_inherit=True)
            digest = importlib.util.source_hash(source)
            compiled[importlib.util.cache_from_source(name)] = _UNCHECKED + digest + marshal.dumps(code)
    return files | compiled


def zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _MOMENT)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, files[name])
    return buffer.getvalue()
