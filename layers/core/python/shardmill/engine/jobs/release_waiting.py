"""Start waiting Jobs whose last dependency was removed, or whose parent was switched off."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from botocore.exceptions import BotoCoreError, ClientError

from shardmill.aws.observability import logger
from shardmill.engine import definitions
from shardmill.engine.jobs.dependencies import start_job
from shardmill.engine.mill import Mill
from shardmill.model.actor import Actor
from shardmill.model.errors import Transient
from shardmill.model.states import JobState
from shardmill.store.definitions import Definition, Expected

_MAX_RELEASED = 100


def save_definition(
    mill: Mill,
    job_name: str,
    document: object,
    actor: Actor,
    *,
    now: int,
    expected: Expected = None,
    check: definitions.Check | None = None,
) -> Definition:
    """Save the next version of a definition; `check` finds more of its faults.

    Its waiting Jobs keep their version; but runs of a parent that the new version does not depend on are no
    longer waited for.
    """
    before = mill.definitions.parents([job_name]).get(job_name, [])
    saved = definitions.save(mill, job_name, document, actor, now=now, expected=expected, check=check)
    if before:
        kept = {each["jobName"] for each in saved.document.get("dependencies", ())}
        release_waiting(mill, [name for name in before if name not in kept], now)
    return saved


def release_waiting(mill: Mill, parents: Iterable[str], now: int) -> None:
    """Check Jobs that wait for parents of which something changed; the tick checks the others in an hour."""
    for parent in parents:
        try:
            ids = list(islice(dict.fromkeys(mill.runs.all_waiting_for(parent)), _MAX_RELEASED))
            waiting = mill.jobs.by_id(ids).values() if ids else ()
        except (ClientError, BotoCoreError, Transient):
            extra = {"action": "release-waiting", "jobName": parent}
            logger.exception("failed to find waiting jobs; the tick will check them in an hour", extra=extra)
            continue
        for job in waiting:
            if job.unmet and job.state is JobState.WAITING:
                start_job(mill, job, now)
