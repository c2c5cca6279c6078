"""Long polling of the lanes (queues) of a worker's groups, higher lanes first.

Each lane has at most one pending receive call. While it is pending, the lane is known to be empty. A lower
lane is polled, and its messages are taken, only while all higher lanes are empty.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from threading import Condition, Thread
from typing import Generic, Protocol, TypeVar

from shardmill.model.worker import MAX_BATCH
from shardmill.transfer.backoff import Backoff

log = logging.getLogger("shardmill.worker")

SETTLE_SECONDS = 0.05
GIVE_WAY_SECONDS = 1.5
"""Longer than the second in which a worker over HTTP polls each lane."""

FAILING = 3
_STILL_EMPTY_SECONDS = 1.0
_BACKOFF = Backoff(attempts=None, first_delay=0.5, max_delay=15.0)


class Received(Protocol):
    """A message and the queue that it came from."""

    @property
    def queue(self) -> str: ...


M = TypeVar("M", bound=Received)


class MessageSource(Protocol[M]):
    def receive(self, url: str, *, most: int, wait: int, hide: int) -> list[M]:
        """Wait for messages of a queue."""

    def hide(self, messages: Iterable[tuple[M, int]]) -> None:
        """Make messages visible again, after a delay in seconds."""


@dataclass(frozen=True, slots=True)
class Lane:
    """`level` 0 goes first; a received message is invisible to others for `hide` seconds."""

    url: str
    level: int
    hide: int


@dataclass(slots=True, eq=False)
class _Poll(Generic[M]):
    """The state of one lane: its pending receive call, the messages that arrived, and its last error."""

    lane: Lane
    empty_from: float | None = None
    seen_empty: float = float("-inf")
    arrived: list[M] = field(default_factory=list)
    error: Exception | None = None
    failures: int = 0
    failed_at: float = 0.0
    delay: float = 0.0
    paused_until: float = float("-inf")

    def empty(self, now: float) -> bool:
        if self.error is not None or self.paused_until > now:
            return True
        return self.empty_from is not None and self.empty_from <= now

    def wait_left(self, now: float) -> float:
        """Seconds until this lane may be polled, after an error or a pause."""
        return max(self.failed_at + self.delay if self.error else 0.0, self.paused_until) - now


class Lanes(Generic[M]):
    """Receives messages for one caller, and polls only while that caller waits."""

    def __init__(self, queues: MessageSource[M]) -> None:
        self._queues = queues
        self._changed = Condition()
        self._polls: dict[Lane, _Poll[M]] = {}
        self._threads: list[Thread] = []
        self._wanted = 0
        self._wait = 0
        self._closed = False

    def serve(self, lanes: Iterable[Lane]) -> bool:
        """Poll these lanes from now on, and no others. Returns whether they have changed."""
        wanted = set(lanes)
        with self._changed:
            if wanted == set(self._polls):
                return False
            self._polls = {lane: self._polls.get(lane) or self._start(lane) for lane in wanted}
            self._changed.notify_all()
        return True

    def _start(self, lane: Lane) -> _Poll[M]:
        poll: _Poll[M] = _Poll(lane)
        thread = Thread(target=self._poll_lane, args=(poll,), name=f"lane {lane.url}", daemon=True)
        self._threads = [*(running for running in self._threads if running.is_alive()), thread]
        thread.start()
        return poll

    def receive(self, most: int, wait: int, patience: float | None = None) -> list[M]:
        """Up to `most` messages, from higher lanes first; waits at most this many seconds for the first.

        `patience`: how long this call waits, if not as long as the queues. Raises the error of a lane if none
        could be polled.
        """
        started = time.monotonic()
        until = started + (wait if patience is None else patience)
        with self._changed:
            self._wanted, self._wait = min(most, MAX_BATCH), wait
            self._changed.notify_all()
            while not self._closed and not self._all_failed(started):
                now = time.monotonic()
                best = min((poll.lane.level for poll in self._polls.values() if poll.arrived), default=None)
                if best is not None and self._empty_above(best, now):
                    break
                if best is None and now >= until:
                    break
                self._changed.wait(SETTLE_SECONDS if best is not None else until - now)
            self._wanted = 0
            arrived = self._take_arrived()
            error = None if arrived else self._all_failed(started)
            most = 0 if self._closed else most
        self.release(arrived[most:])
        if error:
            raise error
        return arrived[:most]

    def _take_arrived(self) -> list[M]:
        polls = sorted(self._polls.values(), key=lambda poll: poll.lane.level)
        arrived = [message for poll in polls for message in poll.arrived]
        for poll in polls:
            poll.arrived = []
        return arrived

    def _all_failed(self, since: float) -> Exception | None:
        polls = list(self._polls.values())
        if polls and all(poll.error and poll.failed_at >= since for poll in polls):
            return polls[0].error
        return None

    def _empty_above(self, level: int, now: float) -> bool:
        return all(poll.empty(now) for poll in self._polls.values() if poll.lane.level < level)

    def _poll_lane(self, poll: _Poll[M]) -> None:
        while most := self._wait_for_turn(poll):
            wait = self._wait
            try:
                messages = self._queues.receive(poll.lane.url, most=most, wait=wait, hide=poll.lane.hide)
            except (
                Exception
            ) as error:  # `receive` raises it if all lanes fail; this lane is polled again later
                self._failed(poll, error)
            else:
                self._received(poll, messages)

    def _wait_for_turn(self, poll: _Poll[M]) -> int:
        """Wait until this lane is to be polled; return the number of messages to request, 0 at the end."""
        with self._changed:
            while not self._closed and self._polls.get(poll.lane) is poll:
                now = time.monotonic()
                delay = poll.wait_left(now)
                if self._wanted and not poll.arrived and delay <= 0:
                    if self._empty_above(poll.lane.level, now):
                        still_empty = now - poll.seen_empty < _STILL_EMPTY_SECONDS
                        poll.empty_from = now if still_empty else now + SETTLE_SECONDS
                        self._changed.notify_all()
                        return self._wanted
                    self._changed.wait(SETTLE_SECONDS)
                else:
                    self._changed.wait(delay if self._wanted and delay > 0 else None)
        return 0

    def _failed(self, poll: _Poll[M], error: Exception) -> None:
        with self._changed:
            if not poll.error:
                log.warning(
                    "failed to poll a queue; polling it again with backoff",
                    extra={"action": "poll-failing", "queue": poll.lane.url, "error": str(error)},
                )
            poll.empty_from = None
            poll.error, poll.failed_at = error, time.monotonic()
            poll.failures += 1
            poll.delay = _BACKOFF.delay(poll.failures)
            self._changed.notify_all()

    def _received(self, poll: _Poll[M], messages: Sequence[M]) -> None:
        """Keep the messages, or release them if the caller no longer waits."""
        with self._changed:
            poll.empty_from = None
            poll.error, poll.failures = None, 0
            if not messages:
                poll.seen_empty = time.monotonic()
            wanted = self._wanted and not self._closed and self._polls.get(poll.lane) is poll
            if wanted:
                poll.arrived.extend(messages)
            self._changed.notify_all()
        if not wanted:
            self.release(messages)

    def release(self, messages: Sequence[M]) -> None:
        """Make messages visible again, so that other workers can receive them."""
        if not messages:
            return
        try:
            self._queues.hide((message, 0) for message in messages)
        except Exception as error:  # after any error, the messages reappear
            log.warning(
                "failed to release messages; they become visible again after their visibility timeout",
                extra={"action": "release-failed", "messages": len(messages), "error": str(error)},
            )

    def give_way(self, messages: Sequence[M]) -> None:
        """Release messages that other workers can use, and do not poll their lanes for a moment.

        A pending receive call of this worker would get them again before a worker that polls less often.
        """
        self.pause({message.queue for message in messages})
        self.release(messages)

    def pause(self, queues: Iterable[str]) -> None:
        """Do not poll these queues for a moment."""
        names = set(queues)
        with self._changed:
            for poll in self._polls.values():
                if poll.lane.url in names:
                    poll.paused_until = time.monotonic() + GIVE_WAY_SECONDS

    def failing(self) -> Exception | None:
        """The error of a lane that could not be polled several times in a row."""
        with self._changed:
            polls = self._polls.values()
            return next((poll.error for poll in polls if poll.error and poll.failures >= FAILING), None)

    def close(self) -> None:
        """Stop receiving; messages that still arrive are released."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def join(self, timeout: float) -> None:
        """Wait for the pending receive calls."""
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
