"""Names for shell completion, read from the API; none, without an error, if it does not answer quickly."""

from __future__ import annotations

import json
from collections.abc import Callable
from http.client import HTTPException
from typing import Any
from urllib.error import URLError
from urllib.parse import quote, urlencode
from urllib.request import ProxyHandler, Request, build_opener

import typer

TIMEOUT_SECONDS = 1.0
MAX_NAMES = 200
MAX_TRIGGERS = 50

Complete = Callable[[typer.Context, str], list[str]]


def definitions(ctx: typer.Context, incomplete: str) -> list[str]:
    return _names(ctx, incomplete, "/v1/definitions", "jobName")


def triggers(ctx: typer.Context, incomplete: str) -> list[str]:
    """The triggers of the latest jobs of the definition given before."""
    job_name = ctx.params.get("job_name")
    if not job_name:
        return []
    return _names(ctx, incomplete, "/v1/jobs", "trigger", jobName=job_name, limit=MAX_TRIGGERS)


def steps(ctx: typer.Context, incomplete: str) -> list[str]:
    """The steps of the job given before."""
    # Before the value of an option, the arguments are not assigned yet.
    job_name, trigger = (ctx.params.get(name) for name in ("job_name", "trigger"))
    if not job_name and len(ctx.args) > 1:
        job_name, trigger = ctx.args[:2]
    if not (job_name and trigger):
        return []
    job = _read(ctx, f"/v1/jobs/{quote(job_name, safe='')}/{quote(trigger, safe='')}", {})
    return _matching(job, "steps", "stepName", incomplete)


def schedules(ctx: typer.Context, incomplete: str) -> list[str]:
    """The schedules of the definition given before."""
    job_name = ctx.params.get("job_name")
    return (
        _names(ctx, incomplete, f"/v1/schedules/{quote(job_name, safe='')}", "scheduleId") if job_name else []
    )


def groups(ctx: typer.Context, incomplete: str) -> list[str]:
    return _names(ctx, incomplete, "/v1/groups", "name")


def workers(ctx: typer.Context, incomplete: str) -> list[str]:
    return _names(ctx, incomplete, "/v1/workers", "name")


def _names(ctx: typer.Context, incomplete: str, path: str, field: str, **query: Any) -> list[str]:
    return _matching(_read(ctx, path, {"limit": MAX_NAMES, **query}), "items", field, incomplete)


def _matching(document: Any, items: str, field: str, incomplete: str) -> list[str]:
    found = document.get(items) if isinstance(document, dict) else None
    names = (str(item.get(field, "")) for item in found or () if isinstance(item, dict))
    return [name for name in dict.fromkeys(names) if name and name.startswith(incomplete)]


def _read(ctx: typer.Context, path: str, query: dict[str, Any]) -> Any:
    """Send one request without retries; None if there is no API, no answer, or another answer."""
    from shardmill.client.connection import connection
    from shardmill.client.errors import ShardmillError

    try:
        found = connection(ctx.params.get("url"), ctx.params.get("token"))
    except ShardmillError:
        return None
    if found.signed:
        return None  # signing takes longer than a completion may
    headers = {**found.headers, "Accept": "application/json"}
    request = Request(f"{found.url}{path}?{urlencode(query)}", headers=headers)  # noqa: S310 - http or https
    opener = build_opener(ProxyHandler({})) if found.loopback else build_opener()
    try:
        with opener.open(request, timeout=TIMEOUT_SECONDS) as response:
            return json.load(response)
    except (URLError, OSError, HTTPException, ValueError):
        return None
