"""The names of a deployment's resources, from the environment variables that template.yaml sets."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass


class SettingMissing(Exception):
    """An environment variable of the deployment is missing."""


@dataclass(frozen=True, slots=True)
class Settings:
    stack: str
    table: str
    bucket: str
    job_machine: str
    step_machine: str
    bus: str
    lambda_queues: tuple[str, ...]
    dead_queue: str
    fire_queue: str = ""
    notify_queue: str = ""
    notify_loopback: bool = False

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> Settings:
        def need(name: str) -> str:
            try:
                return environ[f"SHARDMILL_{name}"]
            except KeyError:
                raise SettingMissing(
                    f"SHARDMILL_{name} is not set; template.yaml sets it for the functions"
                ) from None

        return cls(
            stack=need("STACK"),
            table=need("TABLE"),
            bucket=need("BUCKET"),
            job_machine=need("JOB_MACHINE"),
            step_machine=need("STEP_MACHINE"),
            bus=need("BUS"),
            lambda_queues=tuple(need("LAMBDA_QUEUES").split(",")),
            dead_queue=need("DEAD_QUEUE"),
            fire_queue=environ.get(
                "SHARDMILL_FIRE_QUEUE", ""
            ),  # functions/tick and functions/fire send to it
            notify_queue=environ.get("SHARDMILL_NOTIFY_QUEUE", ""),  # only functions/notify has it
            notify_loopback=environ.get("SHARDMILL_NOTIFY_LOOPBACK") == "true",
        )
