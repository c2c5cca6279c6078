"""Jobs and tasks of the engine as documents of the AWE protocol."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from shardmill.engine.awe.file_documents import Files
from shardmill.engine.awe.task_names import awe_id, name_in_ids, submitted_name, task_id
from shardmill.engine.awe.wording import notes_text
from shardmill.engine.jobs.run_nodes import run_nodes
from shardmill.engine.mill import Mill
from shardmill.engine.running.release import passed_over
from shardmill.engine.views.jobs import counts, task_count
from shardmill.model.awe import states
from shardmill.model.awe.names import ANY_GROUP, plain_name
from shardmill.model.awe.placeholders import plain_text
from shardmill.model.awe.times import awe_time
from shardmill.model.definition.command import Command
from shardmill.model.states import JobState, StepState
from shardmill.store.rows import JobRow, StepRow

CHUNKED = {"record": "chunkrecord", "bytes": "size"}
_NO_PARTS = {"input": "", "index": "", "totalindex": 0, "maxpartsize_mb": 0, "options": ""}


class Steps(NamedTuple):
    """The steps of a run, and how many of each one's tasks have not ended successfully."""

    steps: Sequence[StepRow]
    remaining: Mapping[int, int]


def read_steps(mill: Mill, job: JobRow) -> Steps:
    steps = [node for node in run_nodes(mill, job, consistent=False) if node.kind == "step"]
    found = counts(mill, steps)
    done = {index: sum(n for state, n in each.items() if state == "SUCCESS") for index, each in found.items()}
    remaining = {
        step.index: 0 if is_done(step) else max(1, task_count(step)) - done[step.index] for step in steps
    }
    return Steps(steps, remaining)


def is_done(step: StepRow) -> bool:
    return step.state.lets_dependents_run or passed_over(step)


def job_document(mill: Mill, job: JobRow, base: str) -> dict[str, Any]:
    """A job with its tasks."""
    found = read_steps(mill, job)
    info = info_document(job, found.steps)
    files = Files(mill, found.steps, base)
    tasks = [task_document(files, step, info, found.remaining[step.index]) for step in found.steps]
    return {
        **_job_fields(job, found.steps),
        "info": info,
        "remaintasks": sum(not is_done(step) for step in found.steps),
        "tasks": tasks,
    }


def _job_fields(job: JobRow, steps: Sequence[StepRow]) -> dict[str, Any]:
    return {
        "id": job.id,
        "jid": str(job.jid),
        "state": states.JOB[job.state],
        "registered": is_registered(job),
        "updatetime": awe_time(job.update_time),
        "notes": notes_text(job.notes, steps),
        "lastfailed": awe_id(job.last_failed, {step.index: step for step in steps}),
        "expiration": awe_time(job.delete_at),
        "definition": job.job_name,
        "trigger": job.trigger,
    }


def is_registered(job: JobRow) -> bool:
    """Whether the job is in the queue: it has not ended, or can be resumed."""
    return not job.state.ended or job.state is JobState.SUSPENDED


def minimal_document(job: JobRow, found: Steps) -> dict[str, Any]:
    """A job in lists with `verbosity=minimal`: one object without the tasks themselves."""
    current = [step for step in found.steps if not is_done(step)]
    done = {submitted_name(step): states.TASK[step.state] for step in found.steps}
    info = info_document(job, found.steps)
    named = ("name", "project", "user", "pipeline", "clientgroups", "priority", "userattr")
    return {
        **_job_fields(job, found.steps),
        **{name: info[name] for name in named},
        **{name: info[name] for name in ("submittime", "startedtime", "completedtime")},
        "remaintasks": len(current),
        "task": [at for at, step in enumerate(found.steps) if not is_done(step)],
        "tasks": done,
        "size": 0,
    }


def info_document(job: JobRow, steps: Sequence[StepRow]) -> dict[str, Any]:
    info = job.info
    named = {plain_name(name): name for name in (info.get("clientgroups") or "").split(",")}
    place = {name: at for at, name in enumerate(named)}
    of_steps = dict.fromkeys(name for step in steps for name in step.groups)
    groups = of_steps or sorted(job.groups, key=lambda name: (place.get(name, len(place)), name))
    return {
        "name": info.get("name") or job.job_name,
        "project": info.get("project") or "",
        "user": info.get("user") or job.submit_user,
        "pipeline": info.get("pipeline") or job.job_name,
        "clientgroups": ",".join(
            named.get(name, name) for name in groups if name != ANY_GROUP or info.get("clientgroups")
        ),
        "submittime": awe_time(job.create_time),
        "startedtime": awe_time(job.started_time),
        "completedtime": awe_time(job.completed_time if job.state is JobState.SUCCESS else None),
        "priority": job.priority,
        "auth": bool(info.get("auth")),
        "noretry": bool(info.get("noretry")),
        "userattr": dict(info.get("userattr") or {}),
        "description": info.get("description") or "",
    }


def task_document(files: Files, step: StepRow, info: dict[str, Any], remaining: int) -> dict[str, Any]:
    spec = step.define
    return {
        "id": task_id(step),
        "taskid": submitted_name(step),
        "task_name": name_in_ids(step),
        "jobid": step.job_id,
        "info": info,
        "inputs": files.inputs(spec.inputs),
        "outputs": files.outputs(step),
        "predata": files.inputs(spec.predata),
        "cmd": command_document(spec.command, str(spec.type), spec.content),
        "userattr": dict(spec.userattr),
        "dependsOn": files.task_ids(step, spec.dependent_steps),
        "partinfo": part_document(step),
        "maxworksize": (spec.partition.max_units or 0) if spec.partition else 0,
        "totalwork": max(1, task_count(step)),
        "remainwork": remaining,
        "state": task_state(step),
        "skip": int(passed_over(step)),
        "createdDate": awe_time(step.queued_time or step.create_time),
        "createdate": awe_time(step.queued_time or step.create_time),
        "startedDate": awe_time(step.started_time),
        "starteddate": awe_time(step.started_time),
        "completedDate": awe_time(step.completed_time if is_done(step) else None),
        "completeddate": awe_time(step.completed_time if is_done(step) else None),
        "computetime": step.compute_ms // 1000,
        "notes": notes_text(step.notes, [step]),
    }


def task_state(step: StepRow) -> str:
    """The word for the state of a task; one that was skipped because another failed is still pending."""
    if step.state is StepState.SKIPPED and not passed_over(step):
        return "pending"
    if step.state is StepState.WAITING and not step.waiting:
        return "init"
    return states.TASK[step.state]


def part_document(step: StepRow) -> dict[str, Any] | None:
    """How the input of a task is to be split, or what its document says about it; None if it says nothing."""
    partition = step.define.partition
    if not partition:
        given = step.define.partinfo
        return None if given is None else {**_NO_PARTS, **given}
    index = partition.index
    return {
        "input": partition.input,
        "index": CHUNKED.get(index, index) if partition.unit_mb else index,
        "totalindex": step.context.get("split", {}).get("units") or 0,
        "maxpartsize_mb": partition.max_part_size_mb or (partition.unit_mb and partition.max_units) or 0,
        "options": partition.options or "",
    }


def shell_words(content: str) -> dict[str, Any]:
    """The arguments of `sh` for the content of a step; older clients read only the text."""
    words = ["-c", content]
    return {"args": shlex.join(words), "args_array": words}


def command_document(command: Command | None, kind: str, content: Any) -> dict[str, Any]:
    """A command without its private environment; without a command, `sh` runs the content of a step."""
    if command is None:
        words = shell_words(content if isinstance(content, str) else "true")
        command = Command(name="sh" if kind in ("shell", "noop") else kind, **words)
    return {
        "name": command.name,
        "args": plain(command.args or ""),
        "args_array": [plain(word) for word in command.args_array or []],
        "Dockerimage": command.dockerimage or "",
        "dockerimage": command.dockerimage or "",
        "environ": {"public": dict(command.environ.public)},
        "has_private_env": command.has_private_env,
        "description": command.description or "",
    }


def plain(text: str) -> str:
    """Arguments as clients read them: an @ that is no reference is not doubled, templates are resolved."""
    return plain_text(text).replace("@@", "@")
