"""The last Jobs of a definition, each with the states of its steps."""

from __future__ import annotations

from itertools import islice

from pydantic import Field

from shardmill.engine.access.visible import Visible
from shardmill.engine.mill import Mill
from shardmill.engine.views.jobs import summary
from shardmill.model.base import Answer
from shardmill.model.job import Job
from shardmill.model.states import StepState

MAX_RUNS = 50
MAX_SCANNED = 500


class DefinitionRun(Answer):
    job: Job
    states: list[StepState | None] = Field(description="by position in `steps`; null if it has no such step")


class DefinitionRuns(Answer):
    """The last Jobs of a definition, newest first, and the names of their steps."""

    steps: list[str]
    runs: list[DefinitionRun]


def definition_runs(mill: Mill, job_name: str, limit: int, visible: Visible) -> DefinitionRuns:
    """Return the last Jobs of a definition; reads the step rows of each."""
    jobs = mill.jobs.page(job_name=job_name, state=None, before=None, limit=limit)
    found = list(islice(filter(visible.job, islice(jobs, MAX_SCANNED)), limit))
    states = [
        {
            node.name: node.state
            for node in mill.jobs.steps(job.id, job.run, consistent=False)
            if node.kind == "step"
        }
        for job in found
    ]
    names = list(dict.fromkeys(name for each in states for name in each))
    return DefinitionRuns(
        steps=names,
        runs=[
            DefinitionRun(job=summary(job), states=[each.get(name) for name in names])
            for job, each in zip(found, states, strict=True)
        ],
    )
