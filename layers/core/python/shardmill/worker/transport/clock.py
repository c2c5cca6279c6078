"""The time of a worker that uses AWS directly: its own clock, corrected by the times in the answers of AWS.

Leases compare times that different machines wrote. The Date header of an answer has whole seconds, so one
answer gives bounds of the offset between AWS and this machine; the bounds of several answers are intersected.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from threading import Lock, local
from typing import Any

log = logging.getLogger("shardmill.worker")

TOLERANCE = 1.0
"""An offset that may be this small is not corrected: the header is not precise enough."""

JUMP = 1.0
"""A wall clock that moves this much more or less than the monotonic clock was set, or the machine slept."""

REPORTED = 2.0
"""A correction of this many seconds is logged."""

_LONGEST_CALL = 5.0  # a longer call, such as one that waits for messages, says too little
_DRIFT = 0.0005  # for an inaccurate quartz, or a clock that is being adjusted

Clock = Callable[[], float]


class MeasuredClock:
    """An estimate of AWS's time, shared by the threads of a worker."""

    def __init__(self, wall: Clock = time.time, monotonic: Clock = time.monotonic) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._lock = Lock()
        self._call = local()
        self._ahead = wall() - monotonic()
        self._bounds: tuple[float, float] | None = None
        self._bounds_time = 0.0
        self._measured = False
        self._reported = 0.0

    def watch(self, client: Any) -> None:
        """Measure with each call of a boto3 client."""
        client.meta.events.register("request-created", self._request_created)
        client.meta.events.register("response-received", self._response_received)

    def unwatch(self, client: Any) -> None:
        client.meta.events.unregister("request-created", self._request_created)
        client.meta.events.unregister("response-received", self._response_received)

    def now_ms(self, measure: Callable[[], object]) -> int:
        """The time of AWS. `measure` makes a short call; it is made at the start, and after a jump of the
        clock."""
        with self._lock:
            self._notice_jump()
            measured = self._measured
        if not measured:
            measure()
        with self._lock:
            self._measured = True  # also if the answer had no date; the next answers measure
            return int((self._wall() + self._offset()) * 1000)

    def observe(self, date: str, sent: float, received: float) -> None:
        """Narrow the bounds by an answer; `sent` and `received` are times of the monotonic clock."""
        try:
            answered = parsedate_to_datetime(date).timestamp()
        except ValueError:
            return
        with self._lock:
            if self._notice_jump() or received - sent > _LONGEST_CALL:
                return
            low, high = answered - (received + self._ahead), answered + 1 - (sent + self._ahead)
            if self._bounds:
                drift = (received - self._bounds_time) * _DRIFT
                known = self._bounds[0] - drift, self._bounds[1] + drift
                if low <= known[1] and known[0] <= high:  # else the clock has changed: start over
                    low, high = max(low, known[0]), min(high, known[1])
            self._bounds, self._bounds_time, self._measured = (low, high), received, True
            self._report(self._offset())

    def _offset(self) -> float:
        """Seconds to add to the wall clock."""
        if not self._bounds:
            return 0.0
        low, high = self._bounds
        return 0.0 if low <= TOLERANCE and high >= -TOLERANCE else (low + high) / 2

    def _notice_jump(self) -> bool:
        """Forget the offset if the wall clock has jumped; return whether it has."""
        ahead = self._wall() - self._monotonic()
        jump, self._ahead = ahead - self._ahead, ahead
        if abs(jump) <= JUMP:
            return False
        self._bounds, self._measured = None, False
        log.info(
            "the clock of this machine has jumped; its offset is measured again",
            extra={"action": "clock-jumped", "seconds": round(jump, 1)},
        )
        return True

    def _report(self, offset: float) -> None:
        if abs(offset - self._reported) < REPORTED:
            return
        self._reported = offset
        if offset:
            log.warning(
                "the clock of this machine is wrong; times are corrected, but set the clock",
                extra={"action": "clock-offset", "seconds": round(offset, 1)},
            )

    def _request_created(self, **_: Any) -> None:
        self._call.sent = self._monotonic()

    def _response_received(self, response_dict: Any = None, **_: Any) -> None:
        date = response_dict["headers"].get("date") if response_dict else None
        sent = getattr(self._call, "sent", None)
        if date and sent is not None:
            self.observe(date, sent, self._monotonic())
