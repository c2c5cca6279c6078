"""Start steps with their tasks already opened: their executions only wait for the tasks and close the step.

This saves a Lambda call for each step. If the process ends between opening a step and starting its execution,
the repeated call starts the execution, or the tick does; its first state then opens the step again.
"""

from __future__ import annotations

from shardmill.aws.observability import logger
from shardmill.engine.mill import Mill
from shardmill.engine.running.open_step import Opened, open_ahead
from shardmill.store.rows import StepRow

MAX_OPENED = 10
"""The steps that one call opens; the executions of others open them, at the same time."""


class StepOpener:
    """Starts steps for one call of a state machine, and opens the first of them."""

    def __init__(self, mill: Mill, now: int) -> None:
        self._mill = mill
        self._now = now
        self._left = MAX_OPENED

    def start(self, step: StepRow) -> None:
        self._mill.start_step(step, self._open(step))

    def _open(self, step: StepRow) -> Opened | None:
        if not self._left:
            return None
        self._left -= 1
        try:
            return open_ahead(self._mill, step, self._now)
        except Exception:
            # The step that this call plans or closes must not fail because of another one.
            extra = {"action": "open-ahead", "jobId": step.job_id, "run": step.run, "step": step.name}
            logger.exception("failed to open a step; its execution will retry", extra=extra)
            return None
