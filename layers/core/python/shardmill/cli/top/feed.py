"""The data of `shardmill top`, read in the background with conditional requests, at most 30 a minute."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from shardmill.client.errors import ShardmillError

if TYPE_CHECKING:
    from shardmill.client.client import Client
    from shardmill.client.http import Polled

TICK_SECONDS = 2.0
MAX_DELAY_SECONDS = 30.0
SHOWN_PROGRESS = 20
_ROUND = ("now", "workers", "progress", "now")
"""The rotation of reads: in 8 seconds, the overview twice, the workers and one running Job once."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The latest data, and the time at which it was read."""

    now: dict[str, Any] = field(default_factory=dict)
    workers: list[dict[str, Any]] = field(default_factory=list)
    progress: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By Job id: tasks that ended, and tasks."""
    read_at: float | None = None
    error: str = ""


class Feed:
    """Reads in a thread; `snapshot` is the latest state, and `changed` is called after each read."""

    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._etags: dict[str, str | None] = {}
        self._turn = 0
        self._next_job = 0
        self._failures = 0
        self._wake = threading.Event()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="top", daemon=True)
        self.snapshot = Snapshot()

    def __enter__(self) -> Feed:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped = True
        self._wake.set()
        self._thread.join(1.0)  # a request that hangs ends with the process

    def refresh(self) -> None:
        """Read the overview now."""
        self._turn = 0
        self._wake.set()

    def read_all(self) -> Snapshot:
        """Read everything once. Raises ShardmillError."""
        for what in ("now", "workers"):
            self._read(what)
        return self.snapshot

    def _run(self) -> None:
        while not self._stopped:
            self._wake.clear()
            self._wake.wait(self.read_next())

    def read_next(self) -> float:
        """Read the next item of the rotation; return the seconds to wait, more after each failure."""
        what = _ROUND[self._turn % len(_ROUND)]
        try:
            self._read(what)
        except ShardmillError as error:
            self._failures += 1
            self._update(error=error.detail)
            return min(TICK_SECONDS * 2.0**self._failures, MAX_DELAY_SECONDS)
        self._failures = 0
        self._turn += 1
        return 0.0 if self._turn < len(_ROUND) - 1 else TICK_SECONDS

    def _read(self, what: str) -> None:
        if what == "now":
            found = self._poll("now", lambda etag: self._client.poll_now(etag))
            self._update(error="", read_at=self._clock(), **({"now": found} if found is not None else {}))
        elif what == "workers":
            found = self._poll("workers", lambda etag: self._client.poll_workers(etag))
            self._update(**({"workers": found["items"]} if found is not None else {}))
        else:
            self._read_progress()

    def _read_progress(self) -> None:
        """Read the tasks of one running Job, of each in turn."""
        running = self.snapshot.now.get("live", {}).get("RUNNING", {}).get("items", [])[:SHOWN_PROGRESS]
        if not running:
            return
        job = running[self._next_job % len(running)]
        self._next_job += 1
        found = self._poll(
            job["id"], lambda etag: self._client.poll_job(job["jobName"], job["trigger"], etag)
        )
        if found is not None:
            total = sum(step["totalWork"] for step in found["steps"])
            ended = total - sum(step["remainWork"] for step in found["steps"])
            known = {each["id"] for each in running}
            kept = {id_: value for id_, value in self.snapshot.progress.items() if id_ in known}
            self._update(progress={**kept, job["id"]: (ended, total)})

    def _poll(self, name: str, read: Callable[[str | None], Polled]) -> Any:
        """Return the content, or None if it is unchanged."""
        polled = read(self._etags.get(name))
        self._etags[name] = polled.etag
        return polled.content

    def _update(self, **fields: Any) -> None:
        from dataclasses import replace

        self.snapshot = replace(self.snapshot, **fields)
