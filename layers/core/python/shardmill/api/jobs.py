"""/v1/jobs and /v1/uploads: submit and read Jobs, their steps, tasks, files and logs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Path, Query

from shardmill.api import conditional, pagination
from shardmill.api.conditional import JobVersion, NotModified
from shardmill.api.pagination import Cursor, Limit, Page
from shardmill.api.responses import JSON, DryRun, actor, current_event, job_response, no_content, now, visible
from shardmill.aws.clock import new_id
from shardmill.engine.files import logs, uploads
from shardmill.engine.jobs.submit import submit as submit_request
from shardmill.engine.mill import mill
from shardmill.engine.views import explain, jobs, tasks
from shardmill.engine.views.task_attempts import MAX_TASKS, TaskAttempts, task_attempts
from shardmill.engine.views.task_grid import TaskGrid, task_grid
from shardmill.engine.views.task_values import TaskValues, task_values
from shardmill.model.base import MAX_NAME, Answer
from shardmill.model.blocks import block_of
from shardmill.model.control.effect import Effect
from shardmill.model.job import DependencyStatus, Job, Step, Task, Transition
from shardmill.model.states import JobState, TaskState
from shardmill.model.transfers import JobFile, Upload, UploadRequest
from shardmill.store.rows import JobRow

SETTLED_MS = 60_000
"""After this time, an ended Job changes only if its row changes."""
MAX_JOBS_SCANNED = 2_000
MAX_TASKS_SCANNED = 65_536
MAX_FILES_SCANNED = 100_000
JOBS_PER_QUERY = 500
BLOCKS_PER_QUERY = 100

Document = Annotated[Any, Body(description="a JobRequest")]
Run = Annotated[int | None, Query(ge=1, description="number of an earlier run; default: the current run")]
Index = Annotated[int, Path(ge=0, description="index of the task, counted from startShardId")]


class Log(Answer):
    """Part of a log. `offset` is where the next part begins; `complete` is true if nothing more follows."""

    text: str
    offset: int
    complete: bool


def submit(document: Document) -> Response[Job]:
    """Submit a Job: 202 for a new Job, 200 if the same request was made before, 409 if it differs."""
    submitted = submit_request(mill(), document, actor(), now=now(), new_id=new_id)
    job = submitted.job
    if submitted.new:
        body = job_response(jobs.submitted_view(mill(), job, submitted.steps, now()))
    else:
        body = job_response(jobs.job_view(mill(), job, now()))
    headers = {"location": f"/v1/jobs/{job.job_name}/{job.trigger}"}
    return Response(status_code=202 if submitted.new else 200, content_type=JSON, body=body, headers=headers)


def begin_upload(request: Annotated[UploadRequest, Body()]) -> Upload:
    """Get a URL, valid for fifteen minutes, to PUT a file for the `files` of a later JobRequest."""
    return uploads.begin(mill(), request, actor(), now())


def list_jobs(
    job_name: Annotated[str | None, Query(alias="jobName", max_length=MAX_NAME)] = None,
    state: Annotated[JobState | None, Query()] = None,
    submit_user: Annotated[str | None, Query(alias="submitUser")] = None,
    limit: Limit = pagination.DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Page[Job]:
    """List Jobs, newest first, without their steps."""
    seen = visible()
    filtered = submit_user or (job_name and state) or not seen.all
    rows = mill().jobs.page(
        job_name=job_name,
        state=state,
        before=pagination.decode_cursor(cursor, int),
        limit=JOBS_PER_QUERY if filtered else limit + 1,
    )

    def matches(job: JobRow) -> bool:
        return (
            (not state or job.state is state)
            and (not submit_user or job.submit_user == submit_user)
            and seen.job(job)
        )

    found = ((job.jid, jobs.summary(job) if matches(job) else None) for job in rows)
    return pagination.page(found, limit, max_scanned=MAX_JOBS_SCANNED, look_ahead=not seen.all)


def read(job_name: str, trigger: str, run: Run = None) -> Response[Job]:
    """Get a Job with its steps and the number of their tasks in each state."""
    known = conditional.known_job(current_event().raw_event) if run is None else None
    if known and _is_unchanged(job_name, trigger, known):
        raise NotModified(known.etag)
    job = jobs.read_job(mill(), job_name, trigger, run)
    settled = run is None and job.state.ended and job.update_time < now() - SETTLED_MS
    headers = {"etag": _version_of(job).etag} if settled else {}
    return Response(200, JSON, job_response(jobs.job_view(mill(), job, now())), headers)


def _is_unchanged(job_name: str, trigger: str, known: JobVersion) -> bool:
    """Whether an ended Job is unchanged since the caller read it; reads only its row."""
    job = mill().jobs.get(known.job_id)
    if not job or (job.job_name, job.trigger) != (job_name, trigger) or job.state is JobState.DELETED:
        return False
    return job.state.ended and _version_of(job) == known


def _version_of(job: JobRow) -> JobVersion:
    return JobVersion(job.id, job.run, job.update_time)


def delete_job(
    job_name: str,
    trigger: str,
    full: Annotated[bool, Query(description="also delete its rows, files and logs")] = False,
    dry_run: DryRun = False,
) -> Response[Effect | None]:
    """Delete a Job, after killing it if it has not ended. Its name and trigger can then be used again."""
    job = jobs.read_job(mill(), job_name, trigger)
    if dry_run:
        from shardmill.engine.views import effects  # imported here because few requests need it

        return Response(200, JSON, effects.deletion(mill(), job, full=full))
    from shardmill.engine import downstream  # imported here because few requests need it

    downstream.delete_job(mill(), job, actor().name, now(), new_id, full=full)
    return no_content()


def read_history(
    job_name: str, trigger: str, limit: Limit = pagination.WHOLE_LIST, cursor: Cursor = None
) -> Page[Transition]:
    """List every state transition of a Job and its steps, in order."""
    job = jobs.read_job(mill(), job_name, trigger)
    return pagination.page_of_list(explain.history(mill(), job), limit, cursor)


def list_files(
    job_name: str,
    trigger: str,
    step: Annotated[str | None, Query(description="only files of this step")] = None,
    name: Annotated[
        str | None, Query(description="only files whose name is this or matches this pattern")
    ] = None,
    limit: Limit = pagination.DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Page[JobFile]:
    """List the files submitted with a Job and made by its tasks, with URLs valid for fifteen minutes."""
    from shardmill.engine.files import listing  # imported here because few requests need it

    job = jobs.read_job(mill(), job_name, trigger)
    after = pagination.decode_cursor(cursor, int)
    found = listing.files(mill(), job, step_name=step, name=name, after=after)
    return pagination.page(found, limit, max_scanned=MAX_FILES_SCANNED)


def dependencies(
    job_name: str, trigger: str, limit: Limit = pagination.WHOLE_LIST, cursor: Cursor = None
) -> Page[DependencyStatus]:
    """List the runs of parent Jobs that a Job depends on, and whether each is done."""
    job = jobs.read_job(mill(), job_name, trigger)
    return pagination.page_of_list(jobs.dependencies(mill(), job, visible()), limit, cursor)


def read_step(job_name: str, trigger: str, step_name: str, run: Run = None) -> Step:
    """Get a step, with the state of each task if there are at most 1000."""
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
    """List the tasks of a step in the order of their index."""
    job = jobs.read_job(mill(), job_name, trigger, run)
    step, _ = jobs.read_step(mill(), job, step_name)
    before = pagination.decode_cursor(cursor, int)
    start = 0 if before is None else max(before + 1, 0)
    chunk = BLOCKS_PER_QUERY if state else block_of(limit) + 2
    found = tasks.list_tasks(mill(), job, step, start=start, state=state, chunk=chunk)
    page = pagination.page(found, limit, max_scanned=MAX_TASKS_SCANNED)
    tasks.add_progress(mill(), page.items)
    return page


def read_grid(
    job_name: str,
    trigger: str,
    step_name: str,
    run: Run = None,
    from_: Annotated[int, Query(alias="from", ge=0, description="rank of the first task")] = 0,
) -> TaskGrid:
    """Get up to 10,000 tasks of a step in columns: state, attempts, times and workers."""
    job = jobs.read_job(mill(), job_name, trigger, run)
    step, _ = jobs.read_step(mill(), job, step_name)
    return task_grid(mill(), step, from_)


def read_attempts(
    job_name: str,
    trigger: str,
    step_name: str,
    index: Annotated[list[int], Query(min_length=1, max_length=MAX_TASKS, description="indexes of tasks")],
    run: Run = None,
) -> TaskAttempts:
    """List the recorded attempts of up to 50 tasks of a step in this run, by task."""
    job = jobs.read_job(mill(), job_name, trigger, run)
    step, _ = jobs.read_step(mill(), job, step_name)
    return task_attempts(mill(), step, index)


def read_values(
    job_name: str,
    trigger: str,
    step_name: str,
    run: Run = None,
    from_: Annotated[int, Query(alias="from", ge=0, description="rank of the first task")] = 0,
) -> TaskValues:
    """Get the values that up to 64 tasks of a step returned to later steps."""
    job = jobs.read_job(mill(), job_name, trigger, run)
    step, _ = jobs.read_step(mill(), job, step_name)
    return task_values(mill(), step, from_)


def read_task(job_name: str, trigger: str, step_name: str, index: Index, run: Run = None) -> Task:
    """Get a task with its attempts in all runs and the end of its output."""
    job = jobs.read_job(mill(), job_name, trigger, run)
    step, _ = jobs.read_step(mill(), job, step_name)
    return tasks.read_task_with_files(mill(), job, step, index)


def read_log(
    job_name: str,
    trigger: str,
    step_name: str,
    index: Index,
    stream: Annotated[Literal["stdout", "stderr"], Query()] = "stdout",
    offset: Annotated[int, Query(ge=0)] = 0,
    attempt: Annotated[
        int | None, Query(ge=1, description="number of the attempt; default: the last one")
    ] = None,
) -> Log:
    """Read the log of an attempt from a byte offset."""
    job = jobs.read_job(mill(), job_name, trigger)
    step, _ = jobs.read_step(mill(), job, step_name)
    page = logs.read(mill(), step, tasks.read_task(mill(), job, step, index), stream, offset, attempt, now())
    return Log(text=page.text, offset=page.offset, complete=page.complete)
