"""Long polls on the lanes of a worker's groups: one receive in flight a lane, the higher lanes first.

A lane is quiet while its receive waits: there is nothing in it, or its receive would have come back. A lower
lane is asked, and its messages are taken, only while every higher one is quiet.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from threading import Condition, Thread

from botocore.exceptions import BotoCoreError, ClientError

from shardmill.aws.queues import BATCH, Message, Queues

log = logging.getLogger("shardmill.worker")

SETTLE_SECONDS = 0.05
_STILL_EMPTY_SECONDS = 1.0
_FIRST_PAUSE, _LAST_PAUSE = 0.5, 15.0


@dataclass(frozen=True, slots=True)
class Lane:
    """`level` 0 goes first; a received message is hidden for `hide` seconds."""

    url: str
    level: int
    hide: int


@dataclass(slots=True, eq=False)
class _Poll:
    """One lane: the receive in flight, if any, what it brought, and what went wrong."""

    lane: Lane
    quiet_from: float | None = None
    seen_empty: float = float("-inf")
    arrived: list[Message] = field(default_factory=list)
    error: Exception | None = None
    failed_at: float = 0.0
    pause: float = 0.0

    def quiet(self, now: float) -> bool:
        return self.error is not None or (self.quiet_from is not None and self.quiet_from <= now)


class Lanes:
    """Receives messages for one taker; while it takes nothing, nothing is asked for."""

    def __init__(self, queues: Queues) -> None:
        self._queues = queues
        self._changed = Condition()
        self._polls: dict[Lane, _Poll] = {}
        self._threads: list[Thread] = []
        self._wanted = 0
        self._wait = 0
        self._closed = False

    def serve(self, lanes: Iterable[Lane]) -> None:
        """Poll these lanes from now on, and no others."""
        wanted = set(lanes)
        with self._changed:
            if wanted == set(self._polls):
                return
            self._polls = {lane: self._polls.get(lane) or self._begin(lane) for lane in wanted}
            self._changed.notify_all()

    def _begin(self, lane: Lane) -> _Poll:
        poll = _Poll(lane)
        thread = Thread(target=self._serve_lane, args=(poll,), name=f"lane {lane.url}", daemon=True)
        self._threads = [*(running for running in self._threads if running.is_alive()), thread]
        thread.start()
        return poll

    def take(self, most: int, wait: int) -> list[Message]:
        """Up to `most` messages, of the higher lanes first; waits so many seconds for the first.

        Raises what went wrong if no lane could be asked.
        """
        began = time.monotonic()
        with self._changed:
            self._wanted, self._wait = min(most, BATCH), wait
            self._changed.notify_all()
            while not self._closed and not self._all_failed(began):
                now = time.monotonic()
                best = min((poll.lane.level for poll in self._polls.values() if poll.arrived), default=None)
                if best is not None and self._quiet_above(best, now):
                    break
                if best is None and now >= began + wait:
                    break
                self._changed.wait(SETTLE_SECONDS if best is not None else began + wait - now)
            self._wanted = 0
            arrived = self._collect()
            error = None if arrived else self._all_failed(began)
            most = 0 if self._closed else most
        self.show_again(arrived[most:])
        if error:
            raise error
        return arrived[:most]

    def _collect(self) -> list[Message]:
        polls = sorted(self._polls.values(), key=lambda poll: poll.lane.level)
        arrived = [message for poll in polls for message in poll.arrived]
        for poll in polls:
            poll.arrived = []
        return arrived

    def _all_failed(self, began: float) -> Exception | None:
        polls = list(self._polls.values())
        if polls and all(poll.error and poll.failed_at >= began for poll in polls):
            return polls[0].error
        return None

    def _quiet_above(self, level: int, now: float) -> bool:
        return all(poll.quiet(now) for poll in self._polls.values() if poll.lane.level < level)

    def _serve_lane(self, poll: _Poll) -> None:
        while most := self._await_turn(poll):
            wait = self._wait
            try:
                messages = self._queues.receive(poll.lane.url, most=most, wait=wait, hide=poll.lane.hide)
            except Exception as error:  # whatever it is: the taker is told, and the lane is asked again later
                self._failed(poll, error)
            else:
                self._received(poll, messages)

    def _await_turn(self, poll: _Poll) -> int:
        """How many messages to ask for, once it is this lane's turn; 0 when it is over."""
        with self._changed:
            while not self._closed and self._polls.get(poll.lane) is poll:
                now = time.monotonic()
                resting = poll.failed_at + poll.pause - now if poll.error else 0.0
                if self._wanted and not poll.arrived and resting <= 0:
                    if self._quiet_above(poll.lane.level, now):
                        still_empty = now - poll.seen_empty < _STILL_EMPTY_SECONDS
                        poll.quiet_from = now if still_empty else now + SETTLE_SECONDS
                        self._changed.notify_all()
                        return self._wanted
                    self._changed.wait(SETTLE_SECONDS)
                else:
                    self._changed.wait(resting if self._wanted and resting > 0 else None)
        return 0

    def _failed(self, poll: _Poll, error: Exception) -> None:
        with self._changed:
            if not poll.error:
                log.warning("lane-failing queue=%s error=%s", poll.lane.url, error)
            poll.quiet_from = None
            poll.error, poll.failed_at = error, time.monotonic()
            poll.pause = min(_LAST_PAUSE, poll.pause * 2 or _FIRST_PAUSE)
            self._changed.notify_all()

    def _received(self, poll: _Poll, messages: Sequence[Message]) -> None:
        """Nobody wants them any more: that is what being full means, and others may want them."""
        with self._changed:
            poll.quiet_from = None
            poll.error, poll.pause = None, 0.0
            if not messages:
                poll.seen_empty = time.monotonic()
            wanted = self._wanted and not self._closed and self._polls.get(poll.lane) is poll
            if wanted:
                poll.arrived.extend(messages)
            self._changed.notify_all()
        if not wanted:
            self.show_again(messages)

    def show_again(self, messages: Sequence[Message]) -> None:
        if not messages:
            return
        try:
            self._queues.hide((message, 0) for message in messages)
        except (BotoCoreError, ClientError) as error:
            log.warning("not-shown-again messages=%d error=%s", len(messages), error)

    def close(self) -> None:
        """Take nothing more; what still arrives is shown again."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def join(self, timeout: float) -> None:
        """Wait for the receives that are in flight."""
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
