"""The history of jobs and steps: one entry for each transition, stored in the row that changed."""

from __future__ import annotations

import json
from typing import NamedTuple

ENGINE = "shardmill"


class Change(NamedTuple):
    """A transition: when, to which state, in which run, by whom and why."""

    time: int
    state: str
    run: int
    actor: str = ENGINE
    reason: str = ""

    def encode(self) -> str:
        return json.dumps(
            [self.time, self.state, self.run, self.actor, self.reason[:500]], ensure_ascii=False
        )

    @classmethod
    def decode(cls, text: str) -> Change:
        return cls(*json.loads(text))
