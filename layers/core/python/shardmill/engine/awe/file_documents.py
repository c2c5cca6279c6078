"""The files of tasks as documents of the AWE protocol, with the nodes from which clients read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shardmill.engine.awe.task_names import submitted_name, task_id
from shardmill.engine.mill import Mill
from shardmill.engine.views.files import input_files, output_files
from shardmill.model.awe.files import INDEXES, NO_NODE
from shardmill.model.awe.names import JobNode, task_name
from shardmill.model.files import File, RunFile, fits
from shardmill.store.rows import StepRow

_INDEX_NAMES = {kind: name for name, kind in reversed(INDEXES.items())}


class Files:
    """Writes the files of a job's tasks. `base` is the address of this server's `/awe`, its node store."""

    def __init__(self, mill: Mill, steps: Sequence[StepRow], base: str) -> None:
        self._mill = mill
        self._steps = {step.name: step for step in steps}
        self._base = base

    def task_ids(self, step: StepRow, names: Sequence[str]) -> list[str]:
        """The ids of tasks of the same job, from the names of their steps."""
        found = (self._steps.get(name) for name in names)
        return [
            task_id(each) if each else f"{step.job_id}_{task_name(name)}"
            for name, each in zip(names, found, strict=True)
        ]

    def inputs(self, listed: Sequence[File]) -> list[dict[str, Any]]:
        """Inputs or predata as they are declared."""
        return [self._input(RunFile.of(file)) for file in listed]

    def sized_inputs(self, step: StepRow, rank: int, listed: Sequence[File]) -> list[dict[str, Any]]:
        """Inputs or predata with the sizes of the files, as far as they are known."""
        return [self._input(file) for file in input_files(self._mill, step, rank, listed)]

    def outputs(self, step: StepRow, rank: int | None = None) -> list[dict[str, Any]]:
        """Outputs as they are declared, or with the names that the task of a rank gives them."""
        listed = step.define.outputs if rank is None else output_files(step, rank, step.define.outputs, ())
        return [self._output(step, at, RunFile.of(file)) for at, file in enumerate(listed)]

    def _input(self, file: RunFile) -> dict[str, Any]:
        document = _document(file)
        producer = self._steps.get(file.origin or "")
        if producer:
            document["origin"] = submitted_name(producer)
            node = _node_of(producer, file)
            return document | self._node(node) if node else document
        if file.s3 and file.node:
            return document | self._node(file.node)
        if file.node and file.host:
            return document | {"host": file.host, "node": file.node, "url": file.url or ""}
        return document | {"node": NO_NODE, "url": file.url or ""}

    def _output(self, step: StepRow, at: int, file: RunFile) -> dict[str, Any]:
        document = _document(file) | self._node(str(JobNode(step.job_id, step.index, at)))
        directory, _, name = file.name.rpartition("/")
        named = {"name": name, "filename": name, "directory": directory}
        if directory and document["shockfilename"] == name:
            named["shockfilename"] = ""
        return document | named

    def _node(self, node: str) -> dict[str, Any]:
        return {"host": self._base, "node": node, "url": f"{self._base}/node/{node}?download"}


def _node_of(producer: StepRow, file: File) -> str:
    """The node of an input; empty for the output of a single task of several, which has no node."""
    wanted = file.pattern or file.name
    made = producer.define.outputs
    at = next((at for at, each in enumerate(made) if fits(each.upload_name or each.name, wanted)), None)
    return "" if at is None else str(JobNode(producer.job_id, producer.index, at))


def _document(file: RunFile) -> dict[str, Any]:
    return {
        "name": file.name,
        "filename": file.name,
        "host": "",
        "node": NO_NODE,
        "url": "",
        "size": file.size or 0,
        "origin": "",
        "nonzero": file.nonzero,
        "shockfilename": file.upload_name or "",
        "shockindex": _INDEX_NAMES[file.upload_index] if file.upload_index else "",
        "attrfile": file.attrfile or "",
        "directory": "",
    }
