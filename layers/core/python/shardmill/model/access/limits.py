"""The limits of each application, which are the definitions, jobs and schedules with the same `appName`."""

from __future__ import annotations

from typing import NamedTuple


class Limits(NamedTuple):
    """The maximum that one application may have; 0 means no limit."""

    definitions: int = 0
    jobs: int = 0
    """Jobs that have not ended."""
    tasks: int = 0
    """Tasks of the jobs that have not ended."""
    schedules: int = 0
    bytes: int = 0
    """Files of jobs that have ended."""

    @classmethod
    def parse(cls, text: str) -> Limits:
        """The limits in the order of the fields, separated by commas; missing ones are 0."""
        return cls(*(int(each) for each in text.split(",") if each))

    @property
    def text(self) -> str:
        return ",".join(map(str, self))

    @property
    def any(self) -> bool:
        """Whether there is a limit; if there is none, nothing is counted."""
        return any(self)
