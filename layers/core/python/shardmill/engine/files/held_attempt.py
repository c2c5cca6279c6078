"""The attempt that a worker holds, for which it can request URLs of files and logs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from shardmill.engine.errors import FileUnavailable, StaleAttempt, TaskNotFound
from shardmill.engine.files import keys
from shardmill.engine.mill import Mill
from shardmill.engine.task_id import parse_task_id
from shardmill.engine.template_context import context_of
from shardmill.model.blocks import block_of
from shardmill.model.definition.fields import StepDefine
from shardmill.model.files import File
from shardmill.model.states import TaskState
from shardmill.model.templates.render import TemplateError, render_value
from shardmill.store.rows import StepRow


@dataclass(frozen=True, slots=True)
class HeldAttempt:
    """An attempt at a task that the requesting worker is verified to hold."""

    step: StepRow
    rank: int
    attempt: int

    @property
    def spec(self) -> StepDefine:
        return self.step.define

    def output_key(self, name: str) -> str:
        step = self.step
        return keys.output(step.job_id, step.run, step.index, self.rank, self.attempt, name)

    def log_prefix(self, stream: str) -> str:
        step = self.step
        return keys.log(step.job_id, step.run, step.index, self.rank, self.attempt, stream)

    def files(self, listed: Sequence[File]) -> list[File]:
        """Files of the step with their templates rendered for this task."""
        context = context_of(self.step, self.spec, self.rank)
        return [_render_file(file, context) for file in listed]


def _render_file(file: File, context: dict[str, Any]) -> File:
    document = file.model_dump(exclude_none=True)
    try:
        return File.model_validate(render_value(document, context, False))
    except TemplateError as error:
        raise FileUnavailable(f"file {file.name!r}: {error}") from error
    except ValidationError as error:
        why = error.errors(include_url=False, include_input=False)[0]["msg"]
        raise FileUnavailable(f"file {file.name!r}: {why}") from error


def get_held_attempt(mill: Mill, worker_id: str, task: str, attempt: int, run: int) -> HeldAttempt:
    """The attempt that a worker claims to hold. Raises StaleAttempt unless the worker holds it."""
    parsed = parse_task_id(task)
    step = mill.jobs.step(parsed[0], run, parsed[1]) if parsed else None
    if not parsed or not step or parsed[2] >= step.total:
        raise TaskNotFound(f"there is no task {task!r}")
    rank = parsed[2]
    shard = mill.shards.blocks(step, [block_of(rank)])[block_of(rank)][rank]
    holds = shard.attempt == attempt and shard.worker_id == worker_id
    if not holds or shard.state is not TaskState.RUNNING:
        raise StaleAttempt(f"worker {worker_id!r} does not hold attempt {attempt} of the task {task}")
    return HeldAttempt(step, rank, attempt)
