"""Nodes of this deployment as inputs of a job that is submitted."""

from __future__ import annotations

import hashlib

from shardmill.aws.files import Place
from shardmill.engine.files import keys
from shardmill.engine.files.sources import node_files
from shardmill.engine.mill import Mill
from shardmill.engine.nodes import output_nodes, stored_nodes
from shardmill.engine.nodes.callers import may_use, may_use_output
from shardmill.engine.nodes.errors import NodeNotFound, NodeWithoutFile
from shardmill.model.actor import Actor
from shardmill.model.awe.faults import DocumentFault
from shardmill.model.awe.files import OwnFile, own_base
from shardmill.model.awe.names import JobNode, parse_job_node
from shardmill.model.definition.fields import JobDefine
from shardmill.model.fault import Fault, fault

MAX_NODE = 100


def unknown_nodes(mill: Mill, actor: Actor, define: JobDefine) -> list[Fault]:
    """The faults of files of the node store that the author of a definition may not read.

    Files in the newest version are allowed: anyone who may define it can run it already.
    """
    if not actor.limited("read"):
        return []
    named = [
        (("steps", number, kind, at, "s3"), Place(file.s3.bucket, file.s3.key))
        for number, step in enumerate(define.steps)
        for kind, files in (("inputs", step.inputs), ("predata", step.predata))
        for at, file in enumerate(files)
        if file.s3 and file.s3.bucket == mill.files.bucket and keys.node_of(file.s3.key) is not None
    ]
    saved = mill.definitions.find(define.job_name) if named else None
    present = JobDefine.model_validate(saved.document).steps if saved else []
    kept = {place for step in present for place in node_files(mill, step)}
    return [
        fault(path, "unknown-node", "the token may read no such node")
        for path, place in named
        if place not in kept and not _may_name(mill, actor, keys.node_of(place.key) or "")
    ]


def _may_name(mill: Mill, actor: Actor, node: str) -> bool:
    if parsed := parse_job_node(node):
        job = mill.jobs.get(parsed.job_id)
        return job is not None and may_use_output(mill, actor, job)
    row = mill.nodes.get(node) if 0 < len(node) <= MAX_NODE else None
    return row is not None and may_use(mill, actor, row)


class OwnNodes:
    """Finds the files of the nodes that a document names; each is looked up once.

    `base` is the address of this server's `/awe`; the node store is also at the root. Raises DocumentFault
    for a node of this server that does not exist, has no file, or may not be read by the actor.
    """

    def __init__(self, mill: Mill, actor: Actor, base: str, now: int) -> None:
        self._mill = mill
        self._actor = actor
        self._bases = {own_base(base), own_base(base).rpartition("/")[0]}
        self._now = now
        self._known: dict[str, OwnFile] = {}

    @property
    def found(self) -> list[str]:
        """The ids of the nodes that were found."""
        return list(self._known)

    def __call__(self, host: str, node: str) -> OwnFile | None:
        if host and own_base(host) not in self._bases:
            return None
        if node not in self._known:
            self._known[node] = self._file(node)
        return self._known[node]

    def _file(self, node: str) -> OwnFile:
        parsed = parse_job_node(node)
        try:
            found = self._output(parsed) if parsed else self._stored(node)
        except NodeWithoutFile:
            raise DocumentFault(
                f"node {node!r} has no file yet; upload it before the job is submitted"
            ) from None
        except NodeNotFound:
            found = None
        if not found:
            raise DocumentFault(
                f"there is no node {node!r} in the node store of this server that you may read"
            )
        return found

    def _stored(self, node: str) -> OwnFile | None:
        row = self._mill.nodes.get(node)
        if not row or not may_use(self._mill, self._actor, row):
            return None
        row = stored_nodes.settle(self._mill, row, self._now)
        return OwnFile(stored_nodes.place(self._mill, row).key, row.size)

    def _output(self, node: JobNode) -> OwnFile | None:
        """A copy of the output of another job: a job reads only files of its own, and shared ones."""
        output = output_nodes.find(self._mill, node)
        if not may_use_output(self._mill, self._actor, output.job):
            return None
        source = output_nodes.place(self._mill, output)
        copy = keys.node_copy(str(node), hashlib.sha256(source.key.encode()).hexdigest()[:32])
        place = self._mill.files.own(copy)
        head = self._mill.files.head(place)
        if not head:
            self._mill.files.copy(source.key, copy)
            head = self._mill.files.head(place)
        return OwnFile(copy, head.size if head else 0)
