"""The overview, the health check and the cost of a Job, as methods of the Client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shardmill.client.calls import Calls, job_path, read
from shardmill.client.http import Polled
from shardmill.model.cost.prices import Cost


class OverviewCalls(Calls):
    """The methods `poll_…` take the ETag of the last answer; an unchanged answer has no content."""

    def poll_now(self, etag: str | None = None) -> Polled:
        """The overview: live and failed Jobs, Jobs that ended, worker groups and coming firings."""
        return self._poll("/v1/now", {}, etag)

    def poll_workers(self, etag: str | None = None, *, limit: int = 200) -> Polled:
        """The first `limit` workers."""
        return self._poll("/v1/workers", {"limit": limit}, etag)

    def poll_job(self, job_name: str, trigger: str, etag: str | None = None) -> Polled:
        """A Job with its steps."""
        return self._poll(job_path(job_name, trigger), {}, etag)

    def poll_health(self) -> Polled:
        """The health check, which needs no token; its date is the clock of the API."""
        return self._poll("/v1/health", {}, None)

    def cost(self, job_name: str, trigger: str) -> Cost:
        """The estimated cost of a Job on AWS so far."""
        return read(Cost, self._http.get(f"{job_path(job_name, trigger)}:cost"))

    def _poll(self, path: str, query: Mapping[str, Any], etag: str | None) -> Polled:
        return self._http.poll(path, query, etag)
