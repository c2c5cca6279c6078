"""The limits of an application as the API shows them."""

from __future__ import annotations

from pydantic import Field

from shardmill.model.base import Answer


class Limit(Answer):
    """A limit of an application and its present use."""

    limit: int | None = Field(description="the limit of the deployment; null if there is none")
    used: int | None = Field(
        description="null if it is not counted, or if the caller may not read all of the application"
    )


class ApplicationLimits(Answer):
    """The limits of an application and its present use; all applications have the same limits."""

    application: str = Field(description="appName of definitions; empty for those without one")
    definitions: Limit
    jobs: Limit = Field(description="Jobs that have not ended")
    tasks: Limit = Field(description="tasks of Jobs that have not ended")
    schedules: Limit
    bytes: Limit = Field(description="files of Jobs that have ended, measured when they ended")
