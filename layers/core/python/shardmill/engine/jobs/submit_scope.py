"""Whether an actor may submit a Job: by its definition before anything is read, by its groups when known."""

from __future__ import annotations

from dataclasses import replace

from shardmill.engine.access.errors import Forbidden
from shardmill.engine.access.visible import Visible, work_of_definition, work_of_job
from shardmill.engine.errors import DefinitionNotFound, TriggerTaken
from shardmill.engine.jobs.effective import DEFAULT_GROUP, bound_groups_for
from shardmill.engine.mill import Mill
from shardmill.model.actor import Actor
from shardmill.model.definition.fields import JobDefine
from shardmill.store.rows import JobRow


def check_definition_scope(mill: Mill, job_name: str, actor: Actor) -> None:
    """Raise Forbidden if the actor may not submit Jobs of a definition that it may read.

    If it may not read it either, raise DefinitionNotFound, as for one that does not exist. Called before the
    Job is looked up, so that the answer does not tell whether it exists. A request may change the groups of
    its Job, but that does not make a definition of other groups available.
    """
    if not actor.limited("submit"):
        return
    named = actor.may_name("submit", job_name)
    if named and (not actor.needs_rows("submit") or _covers(mill, job_name, actor)):
        return
    exists = actor.has("read") and job_name in mill.definitions.heads([job_name])
    if exists and Visible(mill, actor).definition(job_name):
        raise Forbidden("the token is valid, but this needs the scope 'submit' for the definition")
    raise DefinitionNotFound(job_name)


def _covers(mill: Mill, job_name: str, actor: Actor) -> bool:
    """Whether the actor may submit Jobs of a definition in the groups that it names or that run its types."""
    head = mill.definitions.heads([job_name]).get(job_name)
    if not head:
        return False
    work = work_of_definition(head)
    if actor.may("submit", work):
        return True
    grants = (grant for grant in actor.grants if grant.gives("submit") and grant.groups is not None)
    if not any(grant.covers(replace(work, groups=grant.groups or ())) for grant in grants):
        return False
    saved = mill.definitions.find(job_name)
    return saved is not None and actor.may("submit", replace(work, groups=_groups_of(mill, saved.document)))


def _groups_of(mill: Mill, document: object) -> set[str]:
    define = JobDefine.model_validate(document)
    bound = bound_groups_for(mill, define)
    named = (
        step.worker_groups or bound.get(step.type) or define.worker_groups or [DEFAULT_GROUP]
        for step in define.steps
    )
    return {name for names in named for name in names}


def check_job_scope(job: JobRow, actor: Actor) -> None:
    """Raise Forbidden if a Job would use worker groups for which the actor has no scope."""
    if actor.limited("submit") and not actor.may("submit", work_of_job(job)):
        raise Forbidden("the Job would use worker groups for which the token has no scope 'submit'")


def check_existing_scope(job: JobRow, actor: Actor) -> None:
    """Raise TriggerTaken if an actor requests a Job again that it may neither submit nor read.

    Its application and worker groups can differ from those of its definition now.
    """
    work = work_of_job(job)
    if not actor.may("submit", work) and not actor.may("read", work):
        raise TriggerTaken(job.job_name, job.trigger)
