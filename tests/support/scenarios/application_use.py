"""What applications use of their limits: the counters, and what the rows say they should be."""

from __future__ import annotations

from collections import Counter
from typing import Any

from shardmill.model.access.limits import Limits
from shardmill.store import keys
from shardmill.store.codec import decode_item
from support.moto.cloud import Cloud


def rows(cloud: Cloud) -> list[dict[str, Any]]:
    pages = cloud.clients.dynamodb.get_paginator("scan").paginate(TableName=cloud.table, ConsistentRead=True)
    return [decode_item(item) for page in pages for item in page["Items"]]


def counters(items: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """By application, its counters that are not 0."""
    found = {}
    for item in items:
        if item["pk"].startswith(keys.application_reference("")):
            used = {name: int(item.get(name, 0)) for name in Limits._fields}
            found[keys.parse_application(item["pk"])] = {name: count for name, count in used.items() if count}
    return {name: used for name, used in found.items() if used}


def marks(items: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """By application, the sums over what is marked as counted."""
    found: dict[str, Counter[str]] = {}
    for item in items:
        if "counted_in" in item:
            kind = "definitions" if item["sk"] == "head" else "schedules"
            found.setdefault(keys.parse_application(item["counted_in"]), Counter())[kind] += 1
        if item["sk"] == "job":
            used = found.setdefault(item.get("app_name", ""), Counter())
            if "counted_tasks" in item:
                used += Counter(jobs=1, tasks=int(item["counted_tasks"]))
            used["bytes"] += int(item.get("counted_bytes", 0))
    return {name: dict(+used) for name, used in found.items() if +used}


def live(cloud: Cloud, application: str) -> int:
    """How many Jobs of an application have not ended, by their rows."""
    ended = {"SUCCESS", "FAILED", "KILLED", "DELETED"}
    jobs = [item for item in rows(cloud) if item["sk"] == "job" and item.get("app_name", "") == application]
    return sum(job["state"] not in ended for job in jobs)


def used(cloud: Cloud, application: str) -> dict[str, int]:
    """The counters of an application, after they were compared with the rows."""
    items = rows(cloud)
    assert counters(items) == marks(items)
    return counters(items).get(application, {})
