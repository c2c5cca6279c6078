"""Summaries for the dashboard, each in one answer: the overview, recent runs, the cost of a Job."""

from __future__ import annotations

from typing import Annotated

from aws_lambda_powertools.event_handler.openapi.params import Query

from shardmill.api import pagination
from shardmill.api.responses import actor, now, visible
from shardmill.engine.access.limits import application_limits
from shardmill.engine.definitions import read as read_definition
from shardmill.engine.mill import mill
from shardmill.engine.views import jobs
from shardmill.engine.views.cost import cost_so_far
from shardmill.engine.views.now import Now, overview
from shardmill.engine.views.runs import MAX_RUNS, DefinitionRuns, definition_runs
from shardmill.model.access.grants import Everything
from shardmill.model.access.usage import ApplicationLimits
from shardmill.model.cost.prices import Cost

DEFAULT_RUNS = 25
MAX_SCANNED = 500
MAX_APPLICATION = 64


def now_overview() -> Now:
    """Get an overview: live and failed Jobs, Jobs that ended, worker groups and coming firings."""
    operates = actor().may("operate", Everything())
    return overview(mill(), now(), visible(), operates)


def job_cost(job_name: str, trigger: str) -> Cost:
    """Estimate the cost of a Job on AWS so far, from its steps and tasks and list prices."""
    return cost_so_far(mill(), jobs.job_view(mill(), jobs.read_job(mill(), job_name, trigger), now()))


def runs(
    job_name: str,
    limit: Annotated[int, Query(ge=1, le=MAX_RUNS, description="maximum number of Jobs")] = DEFAULT_RUNS,
    cursor: pagination.Cursor = None,
) -> DefinitionRuns:
    """List the last Jobs of a definition with the states of their steps."""
    read_definition(mill(), job_name)
    before, seen = pagination.decode_cursor(cursor, int), visible()
    rows = mill().jobs.page(job_name=job_name, state=None, before=before, limit=limit + 1)
    found = ((job.jid, jobs.summary(job) if seen.job(job) else None) for job in rows)
    listed = pagination.page(found, limit, max_scanned=MAX_SCANNED, look_ahead=not seen.all)
    return definition_runs(mill(), listed.items, listed.cursor)


def read_limits(
    application: Annotated[
        str,
        Query(max_length=MAX_APPLICATION, description="appName of definitions; empty for those without one"),
    ] = "",
) -> ApplicationLimits:
    """Get the limits of an application and its present use.

    `used` is null if nothing is counted, or if the token may not read all of the application.
    """
    return application_limits(mill(), application, actor())
