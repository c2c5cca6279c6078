"""The settings of a step that the engine reads most often, without the cost of building Pydantic models.

A step's row stores a validated StepDefine as JSON. Building the models takes tens of milliseconds in a
function that starts cold, and closing a block or processing a report needs only a few values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class PackSettings(NamedTuple):
    """Numbers, or expressions that are evaluated when the step opens."""

    size: int | str
    start: int | str
    end: int | str


class StepSettings(NamedTuple):
    """Defaults are the same as in StepDefine, or in JobDefine for the settings that a step inherits."""

    type: str
    when: str | None
    step_type: str
    sharding: int | str
    items: list[Any] | str | None
    pack_conf: PackSettings | None
    partition: Mapping[str, Any] | None
    params: Mapping[str, Any]
    start_shard_id: int
    max_task_count: int | None
    tolerated_failures: int | str
    can_fail: bool
    fail_fast: bool
    run_if_skipped: bool
    timeout_seconds: int | None
    failed_retries: int
    failed_interval: int
    failed_backoff: float
    reject_retries: int
    reject_interval: int
    lost_retries: int

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> StepSettings:
        """Read a step document in its canonical spelling; a gate's is empty."""
        get = spec.get
        return cls(
            type=get("type", "noop"),
            when=get("when"),
            step_type=get("stepType", "SHARD"),
            sharding=get("sharding", 1),
            items=get("items"),
            pack_conf=PackSettings(**pack) if (pack := get("packConf")) else None,
            partition=get("partition"),
            params=get("params", {}),
            start_shard_id=get("startShardId", 0),
            max_task_count=get("maxTaskCount"),
            tolerated_failures=get("toleratedFailures", 0),
            can_fail=get("canFail", False),
            fail_fast=get("failFast", False),
            run_if_skipped=get("runIfSkipped", False),
            timeout_seconds=get("timeoutSeconds"),
            failed_retries=get("failedRetries", 0),
            failed_interval=get("failedInterval", 3),
            failed_backoff=get("failedBackoff", 1.0),
            reject_retries=get("rejectRetries", 10),
            reject_interval=get("rejectInterval", 3),
            lost_retries=get("lostRetries", 5),
        )
