"""AWE documents of the tests, and clients that work until their jobs have ended."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from support.awe.client import IDLE, AweClient
from support.awe.submitter import Submitter
from support.waits import run_until

MakeClient = Callable[..., AweClient]
"""Makes a registered client of a class and a group."""


def document(group: str, *tasks: dict[str, Any], **info: Any) -> str:
    described = {"pipeline": "p", "name": "n", "project": "q", "user": "u", "clientgroups": group, **info}
    return json.dumps({"info": described, "tasks": list(tasks)})


def task(number: int, command: str, args: str, **more: Any) -> dict[str, Any]:
    return {"taskid": str(number), "cmd": {"name": command, "args": args}, **more}


def serve(client: AweClient, done: Callable[[], bool], seconds: float = 60) -> list[str]:
    """Run workunits until there are none and a condition holds; return what was reported."""
    reported: list[str] = []
    answers: list[str] = []

    def idle() -> bool:
        work = client.checkout()
        if isinstance(work, str):
            assert work in IDLE, work
            answers.append(work)
            return True
        reported.append(client.run(work))
        return False

    run_until(lambda: idle() and done(), seconds, interval=0.1, describe=lambda: (reported, answers[-3:]))
    return reported


def completed(submitter: Submitter, *jobs: str) -> Callable[[], bool]:
    """Whether all jobs are completed; those that are, are not asked again."""
    left = set(jobs)

    def look() -> bool:
        for job in sorted(left):
            found = submitter.job(job)
            assert found["state"] != "suspend", found
            if found["state"] == "completed":
                left.discard(job)
        return not left

    return look
