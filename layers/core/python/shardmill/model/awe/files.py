"""The files of an AWE task: list and map style, where each comes from, and as files of the engine."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from shardmill.model.awe.faults import Faults
from shardmill.model.files import MAX_NAME_BYTES, name_fault

NO_NODE = "-"
MAX_FILES = 2_000
"""Files in one list of a task: a workunit with all its files must fit into one answer."""
INDEXES = {"line": "line", "record": "record", "chunkrecord": "record", "size": "bytes", "bytes": "bytes"}
CHUNKED = ("chunkrecord", "size", "bytes")
"""The indexes whose units are chunks of `CHUNK_MB`; a unit of the others is one line or record."""
CHUNK_MB = 1
_DEFAULT_PORT = re.compile(r":(80|443)\Z")
_NODE_URL = re.compile(r"(.*)/node/([^/?#]+)/?(?:\?(.*))?\Z")


@dataclass(frozen=True, slots=True)
class AweFile:
    """An input, output or predata of a task; `origin` is the id of the task that produces it."""

    name: str
    where: str
    host: str = ""
    node: str = ""
    url: str = ""
    origin: str = ""
    size: int = 0
    nonzero: bool = False
    upload_name: str = ""
    index: str = ""
    attrfile: str = ""
    directory: str = ""

    @property
    def path(self) -> str:
        """The path at which a task reads or writes the file in its work folder."""
        return f"{self.directory}/{self.name}" if self.directory else self.name

    @property
    def stored_as(self) -> str:
        """The name under which an output is stored."""
        return self.upload_name or self.name


class OwnFile(NamedTuple):
    """The file of a node of this deployment: its S3 key and its size."""

    key: str
    size: int


OwnNode = Callable[[str, str], OwnFile | None]
"""(host, node) -> the file of the node if this deployment stores it."""


def own_base(url: str) -> str:
    """An address without its scheme, default port and trailing slash, to compare addresses of node stores."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    host = _DEFAULT_PORT.sub("", parts.netloc.lower())
    return f"{host}{parts.path.rstrip('/')}"


def read_files(value: Any, where: str, faults: Faults) -> dict[str, AweFile]:
    """The files of a task by name: an object keyed by name, or a list with `filename`."""
    found: dict[str, AweFile] = {}
    entries = _entries(value, where, faults)
    if len(entries) > MAX_FILES:
        faults.add(where, f"has {len(entries)} files; the limit is {MAX_FILES}: put them into an archive")
        return found
    for name, document, place in entries:
        if not name:
            faults.add(place, "has no filename")
        elif wrong := name_fault(name) or _too_long(name):
            faults.add(place, f"the filename {wrong}")
        elif name in found:
            faults.add(place, f"the file {name!r} is listed twice")
        else:
            found[name] = _file(name, document, place, faults)
    return found


def read_outputs(value: Any, where: str, faults: Faults) -> dict[str, AweFile]:
    """The outputs of a task: files that it makes, in its work folder or a directory of it."""
    found = read_files(value, where, faults)
    names: dict[str, str] = {}
    for file in found.values():
        other = names.setdefault(file.stored_as, file.name)
        if other != file.name:
            faults.add(
                file.where, f"is stored as {file.stored_as!r}, as {other!r} is; change its shockfilename"
            )
        if file.directory and (wrong := name_fault(file.path) or _too_long(file.path)):
            faults.add(f"{file.where}.directory", wrong)
    return found


def _too_long(name: str) -> str:
    return f"must have at most {MAX_NAME_BYTES} bytes" if len(name.encode()) > MAX_NAME_BYTES else ""


def _entries(value: Any, where: str, faults: Faults) -> list[tuple[str, dict[str, Any], str]]:
    if value is None:
        return []
    if isinstance(value, dict):
        return [
            (str(name), faults.object(each, f"{where}.{name}"), f"{where}.{name}")
            for name, each in value.items()
        ]
    if not isinstance(value, list):
        faults.add(where, "must be an object keyed by file name, or a list")
        return []
    found = []
    for at, each in enumerate(value):
        place = f"{where}[{at}]"
        document = faults.object(each, place)
        name = document.get("filename") or document.get("name") or document.get("fileName")
        found.append((faults.text(name, f"{place}.filename"), document, place))
    return found


def _file(name: str, document: dict[str, Any], where: str, faults: Faults) -> AweFile:
    def text(field: str) -> str:
        return faults.text(document.get(field), f"{where}.{field}").strip()

    index = text("shockindex")
    if index and index not in INDEXES:
        faults.add(f"{where}.shockindex", f"must be one of {', '.join(INDEXES)}, not {index!r}")
        index = ""
    _check_supported(document, where, faults)
    node = text("node")
    return AweFile(
        name=name,
        where=where,
        host=text("host").rstrip("/"),
        node="" if node == NO_NODE else node,
        url=text("url"),
        origin=text("origin"),
        size=max(0, faults.number(document.get("size"), f"{where}.size")),
        nonzero=faults.flag(document.get("nonzero"), f"{where}.nonzero"),
        upload_name=text("shockfilename"),
        index=index,
        attrfile=text("attrfile"),
        directory=text("directory").strip("/"),
    )


def _check_supported(document: dict[str, Any], where: str, faults: Faults) -> None:
    """Find options that would make a task run with other files than the document describes."""
    kind = document.get("type")
    if kind not in (None, "", "basic"):
        faults.add(f"{where}.type", f"{str(kind)[:64]!r} is not supported; a task uploads its output itself")
    for name in ("nofile", "uncompress"):
        if document.get(name):
            faults.add(f"{where}.{name}", "is not supported; let the command of the task do it")


def with_node_of_url(file: AweFile) -> AweFile:
    """A file with the host and node that its url contains, if it is the url of a node's download."""
    found = _NODE_URL.match(file.url)
    if not found or file.node:
        return file
    return replace(file, host=file.host or found[1], node=found[2])


def as_input(file: AweFile, own_node: OwnNode, bucket: str) -> dict[str, Any]:
    """A file that exists before the job, as a file of the engine."""
    document: dict[str, Any] = {"name": file.name} | _attributes(file)
    if file.size:
        document["size"] = file.size
    located = with_node_of_url(file)
    own = own_node(located.host, located.node) if located.node else None
    if own:
        size = {"size": own.size} if own.size else {}
        return document | size | {"s3": {"bucket": bucket, "key": own.key}, "node": located.node}
    if file.url:
        return {**document, "url": file.url}
    host = file.host if "://" in file.host else f"http://{file.host}"
    return {**document, "url": f"{host}/node/{file.node}?download", "host": host, "node": file.node}


def as_output(file: AweFile) -> dict[str, Any]:
    document: dict[str, Any] = {"name": file.path, "nonzero": file.nonzero} | _attributes(file)
    if file.upload_name != file.path and (file.upload_name or file.directory):
        document["uploadName"] = file.stored_as
    if file.index:
        document["uploadIndex"] = INDEXES[file.index]
    return document


def _attributes(file: AweFile) -> dict[str, Any]:
    return {"attrfile": file.attrfile} if file.attrfile else {}


def from_origin(file: AweFile, step: str, stored_as: str) -> dict[str, Any]:
    """An output of another task. A pattern joins the parts that the tasks of a split step stored."""
    return {"name": file.name, "origin": step, "pattern": stored_as} | _attributes(file)
