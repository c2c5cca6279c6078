"""The last Jobs of a definition, each with the states of its steps."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from shardmill.engine.mill import Mill
from shardmill.model.base import Answer
from shardmill.model.job import Job
from shardmill.model.states import StepState

MAX_RUNS = 50


class DefinitionRun(Answer):
    job: Job
    states: list[StepState | None] = Field(description="by position in `steps`; null if it has no such step")


class DefinitionRuns(Answer):
    """The last Jobs of a definition, newest first, and the names of their steps."""

    steps: list[str]
    runs: list[DefinitionRun]
    cursor: str | None = Field(default=None, description="pass it to get earlier Jobs; null on the last page")


def definition_runs(mill: Mill, jobs: Sequence[Job], cursor: str | None) -> DefinitionRuns:
    """Return Jobs of one definition with the states of their steps; reads the step rows of each."""
    states = [
        {
            node.name: node.state
            for node in mill.jobs.steps(job.id, job.run, consistent=False)
            if node.kind == "step"
        }
        for job in jobs
    ]
    names = list(dict.fromkeys(name for each in states for name in each))
    return DefinitionRuns(
        steps=names,
        runs=[
            DefinitionRun(job=job, states=[each.get(name) for name in names])
            for job, each in zip(jobs, states, strict=True)
        ],
        cursor=cursor,
    )
