"""/awe/node: the node store. Its routes check tokens themselves, because clients send data tokens."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple

from shardmill.api.awe.awe_request import AweRequest, parse_json
from shardmill.api.awe.envelope import AweAnswer
from shardmill.api.awe.multipart import is_multipart
from shardmill.engine.access.errors import Unauthorized
from shardmill.engine.errors import BadRequest, TooLarge
from shardmill.engine.mill import mill
from shardmill.engine.nodes import output_nodes, stored_nodes, uploads, work_token
from shardmill.engine.nodes.callers import Caller
from shardmill.engine.nodes.downloads import PartWanted
from shardmill.engine.nodes.errors import NodeNotFound
from shardmill.engine.nodes.output_nodes import WHOLE
from shardmill.engine.nodes.uploads import Announced, NewFile, Presigned
from shardmill.engine.nodes.work_outputs import MAX_ATTRIBUTES_BYTES
from shardmill.model.awe.names import JobNode, parse_job_node
from shardmill.model.awe.nodes import NodeFile, node_document
from shardmill.model.files import MAX_NAME_BYTES
from shardmill.model.transfers import MAX_UPLOAD_BYTES
from shardmill.store.awe.nodes import NodeRow

_PART_FIELD = re.compile(r"[1-9]\d{0,5}\Z", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_UPLOAD_SECONDS = 900
_MAX_CHUNK = 1 << 40
_FIELDS = "send the file in the field upload, or a part of it in a field named by its number"


def _without_hints(function: Callable[[AweRequest], AweAnswer]) -> Callable[[AweRequest], AweAnswer]:
    """Answer callers without a valid token with 401, even for nodes that do not exist."""

    @wraps(function)
    def answer(request: AweRequest) -> AweAnswer:
        try:
            return function(request)
        except NodeNotFound:
            if not _caller(request).known:
                raise Unauthorized from None
            raise

    return answer


def create(request: AweRequest) -> AweAnswer:
    """POST /node: a new node; with its file and attributes, or with an address for its file."""
    uploads.check_size(mill(), request.body, f"POST {request.base}/node")
    caller = _caller(request)
    form = _form(request)
    announced = _announced(request) if request.has("upload_url") else None
    row = stored_nodes.create(mill(), caller, str(uuid.uuid4()), request.now)
    return _change(request, row, form, announced)


@_without_hints
def read(request: AweRequest) -> AweAnswer:
    """GET /node/{id}: the node; with ?download its file, with ?download_url the address of the file."""
    node_id, caller, now = request.ids["node_id"], _caller(request), request.now
    job_node = parse_job_node(node_id)
    if not request.has("download") and not request.has("download_url"):
        if job_node:
            return AweAnswer(output_nodes.describe(mill(), caller, job_node, now))
        return AweAnswer(stored_nodes.describe(mill(), stored_nodes.find(mill(), caller, node_id, now)))
    wanted = _part_wanted(request)
    if job_node:
        found = output_nodes.download(mill(), caller, job_node, wanted, now)
    else:
        found = stored_nodes.download(mill(), stored_nodes.find(mill(), caller, node_id, now), wanted)
    if request.has("download_url"):
        return AweAnswer({"url": found.address(), "validtill": None})
    if not _follows_redirects(request) and (content := found.content(mill().settings.max_body)) is not None:
        return AweAnswer(content=content)
    return AweAnswer(status=302, headers={"location": found.address(), "cache-control": "no-store"})


def _follows_redirects(request: AweRequest) -> bool:
    """Whether the caller follows redirects: AWE clients use a transport of Go that does not."""
    return not request.headers.get("user-agent", "").lower().startswith("go")


@_without_hints
def update(request: AweRequest) -> AweAnswer:
    """PUT /node/{id}: its file, a part of it, its attributes, the number of its parts, or an index."""
    node_id, caller, now = request.ids["node_id"], _caller(request), request.now
    if request.text("index"):
        return _index(caller, node_id, request.text("index"), now)
    uploads.check_size(mill(), request.body, f"PUT {request.base}/node/{node_id}")
    form = _form(request)
    announced = _announced(request) if request.has("upload_url") else None
    job_node = parse_job_node(node_id)
    if job_node:
        return _update_output(request, caller, job_node, form, announced)
    row = stored_nodes.find(mill(), caller, node_id, now, write=True)
    return _change(request, row, form, announced)


@_without_hints
def make_index(request: AweRequest) -> AweAnswer:
    """PUT /node/{id}/index/{type}."""
    return _index(_caller(request), request.ids["node_id"], request.ids["index"], request.now)


@_without_hints
def delete(request: AweRequest) -> AweAnswer:
    """DELETE /node/{id}: a node that belongs to no job."""
    node_id = request.ids["node_id"]
    if parse_job_node(node_id):
        raise BadRequest(f"node {node_id} is an output of a job, and is deleted with it")
    row = stored_nodes.find(mill(), _caller(request), node_id, request.now, write=True)
    stored_nodes.delete(mill(), row)
    return AweAnswer("node deleted")


def _caller(request: AweRequest) -> Caller:
    """The caller: an actor of the API, or the holder of a data token, in the header or in the address."""
    words = request.headers.get("authorization", "").split()
    text = request.text("key") or (words[-1] if words else "")
    caller = Caller(request.actor, work_token.parse(mill().settings.token_key, text), text)
    if not caller.known and not text:
        raise Unauthorized
    return caller


class Form(NamedTuple):
    """The files of a form by field, its attributes, and its other fields."""

    files: dict[str, NewFile]
    attributes: dict[str, Any] | None
    texts: dict[str, str]


def _form(request: AweRequest) -> Form:
    if request.body.strip() and not is_multipart(request.headers.get("content-type", "")):
        raise BadRequest(f"the body must be multipart: {_FIELDS}")
    parts = request.parts()
    given = parts.pop("attributes", None) or parts.pop("attributes_str", None)
    attributes = _attributes(given.content) if given and given.content.strip() else None
    files = {
        name: NewFile(_file_name(part.filename), part.content, attributes)
        for name, part in parts.items()
        if name == WHOLE or _PART_FIELD.match(name)
    }
    texts = {name: part.content.decode(errors="replace") for name, part in parts.items() if name not in files}
    if unsupported := {"copy_data", "parent_node", "path", "source"} & texts.keys():
        raise BadRequest(f"the field {min(unsupported)} is not supported; upload the file itself")
    return Form(files, attributes, texts)


def _attributes(content: bytes) -> dict[str, Any]:
    if len(content) > MAX_ATTRIBUTES_BYTES:
        raise TooLarge(f"the attributes have {len(content)} bytes; the limit is {MAX_ATTRIBUTES_BYTES}")
    found = parse_json(content, "attributes")
    if not isinstance(found, dict):
        raise BadRequest("attributes must be a JSON object")
    try:
        json.dumps(found, allow_nan=False)
    except ValueError:
        raise BadRequest("attributes must not contain NaN or infinite numbers") from None
    return found


def _file_name(given: str) -> str:
    return re.split(r"[/\\]", given)[-1].encode()[:MAX_NAME_BYTES].decode(errors="ignore")


def _announced(request: AweRequest) -> Announced:
    sha256 = request.text("sha256").lower()
    if not _SHA256.match(sha256):
        raise BadRequest("upload_url needs the parameter sha256: the file's checksum, 64 hexadecimal digits")
    size = request.number("size", 0, least=0, most=MAX_UPLOAD_BYTES)
    return Announced(_file_name(request.text("file_name")), size, sha256)


def _part_field(request: AweRequest) -> str:
    part = request.text("part")
    if part and not _PART_FIELD.match(part):
        raise BadRequest(f"part must be a number from 1, not {part[:64]!r}")
    return part or WHOLE


def _part_wanted(request: AweRequest) -> PartWanted | None:
    index, part = request.text("index"), request.text("part")
    if not index and not part:
        return None
    if not index or not part:
        raise BadRequest("index and part belong together, as in ?download&index=line&part=1-100")
    return PartWanted(index, part, request.number("chunk_size", 0, least=1, most=_MAX_CHUNK))


def _change(request: AweRequest, row: NodeRow, form: Form, announced: Announced | None) -> AweAnswer:
    """Apply the content of a form to a node that belongs to no output."""
    now = request.now
    if "parts" in form.texts:
        name = _file_name(form.texts.get("file_name", ""))
        row = stored_nodes.set_parts(mill(), row, _count(form.texts["parts"]), name, now)
    for field, file in form.files.items():
        if field == WHOLE:
            row = stored_nodes.upload(mill(), row, file, now)
        else:
            row = stored_nodes.upload_part(mill(), row, int(field), file, now)
    if form.attributes is not None:
        row = stored_nodes.set_attributes(mill(), row, form.attributes, now)
    presigned = None
    if announced and (field := _part_field(request)) != WHOLE:
        presigned = stored_nodes.announce_part(mill(), row, int(field), announced)
    elif announced:
        row, presigned = stored_nodes.announce(mill(), row, announced, now)
    document = stored_nodes.describe(mill(), row)
    return AweAnswer(document | ({"upload": _upload(presigned)} if presigned else {}))


def _count(text: str) -> int:
    if not text.strip().isdecimal() or len(text) > 9:
        raise BadRequest(f"parts must be a number, not {text[:64]!r}")
    return int(text)


def _update_output(
    request: AweRequest, caller: Caller, node: JobNode, form: Form, announced: Announced | None
) -> AweAnswer:
    if announced:
        presigned = output_nodes.presign(mill(), caller, node, _part_field(request), announced, request.now)
        return AweAnswer(node_document(str(node), None) | {"upload": _upload(presigned)})
    if not form.files and form.attributes is None:
        raise BadRequest(f"the form has no file: {_FIELDS}")
    if not form.files:
        output_nodes.set_attributes(mill(), caller, node, form.attributes, request.now)
        return AweAnswer(output_nodes.describe(mill(), caller, node, request.now))
    for field, file in form.files.items():
        output_nodes.upload(mill(), caller, node, field, file, request.now)
    name, size = next((file.name, len(file.content)) for file in form.files.values())
    return AweAnswer(node_document(str(node), NodeFile(name, size, request.now), modified=request.now))


def _upload(presigned: Presigned) -> dict[str, Any]:
    return {
        "url": presigned.url,
        "method": "PUT",
        "headers": dict(presigned.headers),
        "expires_in": _UPLOAD_SECONDS,
    }


def _index(caller: Caller, node_id: str, kind: str, now: int) -> AweAnswer:
    job_node = parse_job_node(node_id)
    if job_node:
        made = output_nodes.index(mill(), caller, job_node, kind, now)
        return AweAnswer(output_nodes.describe(mill(), caller, job_node, now) | {"indexes": {kind: made}})
    row = stored_nodes.find(mill(), caller, node_id, now)
    stored_nodes.index(mill(), row, kind, now)
    return AweAnswer(stored_nodes.describe(mill(), stored_nodes.find(mill(), caller, node_id, now)))
