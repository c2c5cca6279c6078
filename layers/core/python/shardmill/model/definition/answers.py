"""API answers about definitions: saved definitions, lists, and the graph of dependencies."""

from __future__ import annotations

from pydantic import Field

from shardmill.model.base import Answer, Time
from shardmill.model.definition.fields import JobDefine


class SavedDefine(JobDefine, Answer):
    """A saved JobDefine with its version, times and users."""

    version: int
    create_time: Time
    update_time: Time
    submit_user: str
    update_user: str
    suspended: str | None = Field(
        default=None, description="who suspended it and why; no new jobs start meanwhile"
    )


class ListedDefine(Answer):
    """A saved JobDefine in a list, without its document."""

    job_name: str
    version: int
    description: str | None = None
    app_name: str | None = None
    step_count: int
    create_time: Time
    update_time: Time
    submit_user: str
    update_user: str
    suspended: str | None = Field(
        default=None, description="who suspended it and why; no new jobs start meanwhile"
    )


class JobNode(Answer):
    job_name: str
    defined: bool = Field(default=True, description="false for a parent that has not been saved yet")
    schedules: list[str] = Field(default_factory=list)


class JobEdge(Answer):
    """`child` waits for `parent`."""

    parent: str
    child: str


class JobGraph(Answer):
    """All definitions, and the dependencies between them."""

    nodes: list[JobNode]
    edges: list[JobEdge]
