"""Whether an actor may submit a Job: by its definition before anything is read, by its groups when known."""

from __future__ import annotations

from shardmill.engine.access.errors import Forbidden
from shardmill.engine.access.visible import work_of_job
from shardmill.engine.errors import DefinitionNotFound, TriggerTaken
from shardmill.engine.mill import Mill
from shardmill.model.access.grants import Work
from shardmill.model.actor import Actor
from shardmill.store.rows import JobRow


def check_definition_scope(mill: Mill, job_name: str, actor: Actor) -> None:
    """Raise DefinitionNotFound, as for one that does not exist, if the actor may not submit its Jobs.

    Called before the Job is looked up, so that the answer does not tell whether it exists. The groups of a
    Job are not known yet: a request may change them.
    """
    if not actor.limited("submit"):
        return
    if not actor.may_name("submit", job_name):
        raise DefinitionNotFound(job_name)
    if not actor.needs_rows("submit"):
        return
    head = mill.definitions.heads([job_name]).get(job_name)
    if not head or not any(
        grant.gives("submit") and grant.covers(Work(job_name, head.app_name, grant.groups or ()))
        for grant in actor.grants
    ):
        raise DefinitionNotFound(job_name)


def check_job_scope(job: JobRow, actor: Actor) -> None:
    """Raise Forbidden if a Job would use worker groups for which the actor has no scope."""
    if actor.limited("submit") and not actor.may("submit", work_of_job(job)):
        raise Forbidden(
            f"the token has no scope 'submit' for the worker groups {', '.join(sorted(job.groups))}"
        )


def check_existing_scope(job: JobRow, actor: Actor) -> None:
    """Raise TriggerTaken if an actor requests a Job again that it may neither submit nor read.

    Its application and worker groups can differ from those of its definition now.
    """
    work = work_of_job(job)
    if not actor.may("submit", work) and not actor.may("read", work):
        raise TriggerTaken(job.job_name, job.trigger)
