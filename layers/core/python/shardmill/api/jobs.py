"""/v1/jobs, their steps, tasks and logs"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Path, Query

from shardmill.api import pagination
from shardmill.api.pagination import Cursor, Limit, Page
from shardmill.api.responses import JSON, actor, no_content, now
from shardmill.aws.clock import new_id
from shardmill.engine.files import logs, uploads
from shardmill.engine.jobs.submit import submit as submit_request
from shardmill.engine.mill import mill
from shardmill.engine.views import explain, jobs, tasks
from shardmill.model.base import Answer
from shardmill.model.blocks import block_of
from shardmill.model.job import DependencyStatus, Job, Step, Task, Transition
from shardmill.model.states import JobState, TaskState
from shardmill.model.transfers import JobFile, Upload, UploadRequest
from shardmill.store.rows import JobRow

MOST_JOBS_LOOKED_AT = 2_000
MOST_TASKS_LOOKED_AT = 65_536
MOST_FILES_LOOKED_AT = 100_000
JOBS_AT_A_TIME = 500
BLOCKS_AT_A_TIME = 100

Document = Annotated[Any, Body(description="a JobRequest")]
Run = Annotated[int | None, Query(ge=1, description="an earlier run; the present one unless given")]
Index = Annotated[int, Path(ge=0, description="the task's index, from startShardId on")]


class Dependencies(Answer):
    """The runs that a Job waits for, or waited for."""

    items: list[DependencyStatus]
    cursor: None = None


class History(Answer):
    items: list[Transition]
    cursor: None = None


class Log(Answer):
    """A piece of a log; `offset` is where the next one begins, `complete` whether nothing more will come."""

    text: str
    offset: int
    complete: bool


def submit(document: Document) -> Response[Job]:
    """Ask for a run: 202 for a new Job, 200 for the same request again, 409 for other content."""
    submitted = submit_request(mill(), document, actor(), now=now(), new_id=new_id)
    job = submitted.job
    body = jobs.summary(job) if submitted.new else jobs.job_view(mill(), job, now())
    headers = {"location": f"/v1/jobs/{job.job_name}/{job.trigger}"}
    return Response(status_code=202 if submitted.new else 200, content_type=JSON, body=body, headers=headers)


def begin_upload(wanted: Annotated[UploadRequest, Body()]) -> Upload:
    """Where to PUT a file that a JobRequest is to name in its `files`, within fifteen minutes."""
    return uploads.begin(mill(), wanted, actor())


def list_jobs(
    job_name: Annotated[str | None, Query(alias="jobName")] = None,
    state: Annotated[JobState | None, Query()] = None,
    submit_user: Annotated[str | None, Query(alias="submitUser")] = None,
    limit: Limit = pagination.DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Page[Job]:
    """Jobs, newest first, without their steps."""
    filtered = submit_user or (job_name and state)
    rows = mill().jobs.page(
        job_name=job_name,
        state=state,
        before=pagination.place_of(cursor, int),
        limit=JOBS_AT_A_TIME if filtered else limit + 1,
    )

    def fits(job: JobRow) -> bool:
        return (not state or job.state is state) and (not submit_user or job.submit_user == submit_user)

    found = ((job.jid, jobs.summary(job) if fits(job) else None) for job in rows)
    return pagination.page(found, limit, looks=MOST_JOBS_LOOKED_AT)


def read(job_name: str, trigger: str, run: Run = None) -> Job:
    """A Job with its steps and how many of their tasks are in which state."""
    return jobs.job_view(mill(), jobs.read_job(mill(), job_name, trigger, run), now())


def delete_job(
    job_name: str,
    trigger: str,
    full: Annotated[bool, Query(description="with its rows, files and logs")] = False,
) -> Response[None]:
    """Delete a Job, killing it first if it has not ended; its name and trigger are free then."""
    from shardmill.engine.control.delete import delete  # few requests need it

    delete(mill(), jobs.read_job(mill(), job_name, trigger), actor().name, now(), full=full)
    return no_content()


def read_history(job_name: str, trigger: str) -> History:
    """Every transition of a Job and its steps, in order."""
    return History(items=explain.history(mill(), jobs.read_job(mill(), job_name, trigger)))


def list_files(
    job_name: str,
    trigger: str,
    step: Annotated[str | None, Query(description="only those of this step")] = None,
    name: Annotated[str | None, Query(description="only those that this name, or pattern, fits")] = None,
    limit: Limit = pagination.DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Page[JobFile]:
    """The files that came with a Job and those that its tasks made, with addresses for fifteen minutes."""
    from shardmill.engine.files import listing  # only who asks for files pays for it

    job = jobs.read_job(mill(), job_name, trigger)
    after = pagination.place_of(cursor, int)
    found = listing.files(mill(), job, step_name=step, name=name, after=after)
    return pagination.page(found, limit, looks=MOST_FILES_LOOKED_AT)


def dependencies(job_name: str, trigger: str) -> Dependencies:
    """Each run of a parent that a Job waits for, and whether it is done."""
    job = jobs.read_job(mill(), job_name, trigger)
    return Dependencies(items=jobs.dependencies(mill(), job))


def read_step(job_name: str, trigger: str, step_name: str, run: Run = None) -> Step:
    """A step, with the state of each task if there are not more than a thousand."""
    job = jobs.read_job(mill(), job_name, trigger, run)
    return tasks.full_step_view(mill(), job, *jobs.read_step(mill(), job, step_name))


def list_tasks(
    job_name: str,
    trigger: str,
    step_name: str,
    state: Annotated[TaskState | None, Query()] = None,
    run: Run = None,
    limit: Limit = pagination.DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Page[Task]:
    """Every task of a step, leased or not, in the order of their index."""
    job = jobs.read_job(mill(), job_name, trigger, run)
    step, _ = jobs.read_step(mill(), job, step_name)
    before = pagination.place_of(cursor, int)
    start = 0 if before is None else max(before + 1, 0)
    chunk = BLOCKS_AT_A_TIME if state else block_of(limit) + 2
    found = tasks.list_tasks(mill(), job, step, start=start, state=state, chunk=chunk)
    page = pagination.page(found, limit, looks=MOST_TASKS_LOOKED_AT)
    tasks.add_progress(mill(), page.items)
    return page


def read_task(job_name: str, trigger: str, step_name: str, index: Index, run: Run = None) -> Task:
    """A task with all its attempts, those of earlier runs too, and the last of its output."""
    job = jobs.read_job(mill(), job_name, trigger, run)
    step, _ = jobs.read_step(mill(), job, step_name)
    return tasks.read_task(mill(), job, step, index)


def read_log(
    job_name: str,
    trigger: str,
    step_name: str,
    index: Index,
    stream: Annotated[Literal["stdout", "stderr"], Query()] = "stdout",
    offset: Annotated[int, Query(ge=0)] = 0,
    attempt: Annotated[int | None, Query(ge=1, description="the last one unless given")] = None,
) -> Log:
    """The log of a task's attempt, from a byte offset on."""
    job = jobs.read_job(mill(), job_name, trigger)
    step, _ = jobs.read_step(mill(), job, step_name)
    page = logs.read(mill(), step, tasks.read_task(mill(), job, step, index), stream, offset, attempt, now())
    return Log(text=page.text, offset=page.offset, complete=page.complete)
