"""Run another action between two AWS calls of an action: reproducible races without threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import get_ident
from typing import Any, Literal, TypeVar

from support.aws_rules.call import Call, ProcessKilled, running_as

Moment = Literal["before", "after", "crash"]
"""before, after: another action runs before or after a call; crash: the process ends right after it."""

T = TypeVar("T")


@dataclass
class Interruption:
    """An interruption at the `nth` call of an action; `reached` is whether it happened."""

    moment: Moment
    nth: int
    meanwhile: Callable[[], object] = lambda: None
    calls: int = 0
    reached: bool = False

    def around(self, make: Callable[[], T]) -> T:
        self.calls += 1
        if self.reached or self.calls != self.nth:
            return make()
        self.reached = True
        if self.moment == "before":
            self._act_meanwhile()
            return make()
        answer = make()
        if self.moment == "crash":
            raise ProcessKilled(f"at call {self.nth}")
        self._act_meanwhile()
        return answer

    def _act_meanwhile(self) -> None:
        with running_as(None):  # the other action does not have the role of the interrupted one
            self.meanwhile()


@dataclass
class Interrupter:
    """Makes every AWS call; an action that interrupts another is not interrupted itself.

    Calls of other threads, such as those of executions that the action starts, are not part of it."""

    _planned: list[tuple[Interruption | None, int]] = field(default_factory=list)

    def act(self, action: Callable[[], T], interruption: Interruption | None = None) -> T:
        self._planned.append((interruption, get_ident()))
        try:
            return action()
        finally:
            self._planned.pop()

    def around(self, call: Call, make: Callable[[Call], dict[str, Any]]) -> dict[str, Any]:
        """Make a call; a rule for `Faults.add_rule`."""
        return self.through(lambda: make(call))

    def through(self, make: Callable[[], T]) -> T:
        planned, thread = self._planned[-1] if self._planned else (None, 0)
        return planned.around(make) if planned and thread == get_ident() else make()
