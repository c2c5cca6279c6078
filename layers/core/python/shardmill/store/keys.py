"""DynamoDB keys of most rows.

Keys of groups are in `group_keys`, of tasks in `tasks.keys`, of dependencies between jobs in `due.run_keys`,
of the indexes in `indexes`.

Definitions, schedules, groups, workers and the identity of a job are keyed by name. All other rows of a job
are keyed by its id and run, so that rows of an earlier job with the same name are never read by accident.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Key = dict[str, str]
Partition = tuple[str, str]
"""The name and value of a partition key, as `Table.query` takes it."""
Range = tuple[str, Any, Any]
"""The name of a sort key and its first and last value."""
StepKey = tuple[str, int, int]
"""The id of a job, a run, and the index of a step."""

KEY = ("pk", "sk")
"""The attributes that make a key."""

_DEFINITION = "DEF#"
_SCHEDULES = "SCHED#"
_JOB = "JOB#"
_JOB_ROW = "job"
_CHILD = "child#"
_COUNTED = "counted#"
_SCHEDULE = "s#"
_BACKFILL = "b#"
_WAITER = "waiter#"
_READER = "reader#"
_APPLICATION = "APP#"
MAX_TIME = 10**14
_MAX_RUN = 9_999
_MAX_VERSION = 10**8 - 1
MAX_STEP = 99_999


def key_of(item: Mapping[str, Any]) -> Key:
    """The key of an item."""
    return {name: item[name] for name in KEY}


def partition_of(key: Mapping[str, str]) -> Partition:
    """The partition that holds a key."""
    return "pk", key["pk"]


def key_range(first: Key, last: Key) -> Range:
    """The sort keys between two keys of a partition, both included."""
    return "sk", first["sk"], last["sk"]


def prefix(text: str) -> tuple[str, str]:
    """The sort keys that begin with a text."""
    return "sk", text


def definition_head(job_name: str) -> Key:
    return {"pk": f"{_DEFINITION}{job_name}", "sk": "head"}


def definition_version(job_name: str, version: int) -> Key:
    return {"pk": f"{_DEFINITION}{job_name}", "sk": f"v{version:08d}"}


def definition_versions(job_name: str, *, before: int | None) -> tuple[Partition, Range]:
    """All versions of a definition, or only the versions before `before`."""
    newest = _MAX_VERSION if before is None else max(before - 1, 0)
    first, last = (definition_version(job_name, number) for number in (0, newest))
    return partition_of(first), key_range(first, last)


def definition_child(job_name: str, child: str) -> Key:
    """A row under `job_name` for a definition that depends on it."""
    return {"pk": f"{_DEFINITION}{job_name}", "sk": f"{_CHILD}{child}"}


DEFINITION_CHILDREN = prefix(_CHILD)


def child_start(job_name: str) -> Key:
    """The successes of parents that count for the next start of a definition's Job."""
    return {"pk": f"{_DEFINITION}{job_name}", "sk": "start"}


def parse_child(item: Mapping[str, Any]) -> str:
    return str(item["sk"]).removeprefix(_CHILD)


def schedule(job_name: str, schedule_id: str) -> Key:
    return {"pk": f"{_SCHEDULES}{job_name}", "sk": f"{_SCHEDULE}{schedule_id}"}


SCHEDULES_OF_JOB = prefix(_SCHEDULE)


def parse_schedule(item: Mapping[str, Any]) -> tuple[str, str]:
    """The job name and the id of a schedule."""
    return item["pk"].removeprefix(_SCHEDULES), item["sk"].removeprefix(_SCHEDULE)


def skip(job_name: str, schedule_id: str, until: int) -> Key:
    """Consecutive times of a schedule that started no job, by the last of them."""
    return {"pk": f"SKIP#{job_name}/{schedule_id}", "sk": sort_time(until)}


def skips_from(job_name: str, schedule_id: str, start: int) -> tuple[Partition, Range]:
    """The skips of a schedule that end at `start` or later."""
    first, last = (skip(job_name, schedule_id, until) for until in (start, MAX_TIME))
    return partition_of(first), key_range(first, last)


def parse_skip(item: Mapping[str, Any]) -> int:
    """The last of the times that a skip covers."""
    return int(item["sk"]) - MAX_TIME


def backfill(job_name: str, schedule_id: str, number: int) -> Key:
    return {"pk": f"{_SCHEDULES}{job_name}", "sk": f"{_BACKFILL}{schedule_id}#{number:06d}"}


def backfills_of(schedule_id: str) -> tuple[str, str]:
    return prefix(f"{_BACKFILL}{schedule_id}#")


def parse_backfill(item: Mapping[str, Any]) -> tuple[str, str, int]:
    """The job name, the id of the schedule and the number of a backfill."""
    _, schedule_id, number = item["sk"].split("#")
    return item["pk"].removeprefix(_SCHEDULES), schedule_id, int(number)


def identity(job_name: str, trigger: str) -> Key:
    return {"pk": f"NAME#{job_name}", "sk": trigger}


def job_counter() -> Key:
    """The counter that numbers jobs."""
    return _counter("jid")


def ticks() -> Key:
    """The ticks that followed each other in time."""
    return _counter("ticks")


def graph_counter() -> Key:
    """The revision of the dependencies between definitions."""
    return _counter("graph")


def counted_limits() -> Key:
    """The limits of applications for which everything has been counted."""
    return _counter("limits")


def group_counter(group_name: str) -> Key:
    """The counter that numbers the generations of a group's queues."""
    return _counter(f"group#{group_name}")


def _counter(name: str) -> Key:
    return {"pk": "COUNTER", "sk": name}


def job(job_id: str) -> Key:
    return {"pk": f"{_JOB}{job_id}", "sk": _JOB_ROW}


def is_job(key: Mapping[str, Any]) -> bool:
    """Whether a row of a job's partition is the job itself."""
    return bool(key["sk"] == _JOB_ROW)


def parse_job(item: Mapping[str, Any]) -> str:
    """The id of the job that a row belongs to."""
    return str(item["pk"]).removeprefix(_JOB)


def deadline(job_id: str) -> Key:
    return {"pk": f"{_JOB}{job_id}", "sk": "deadline"}


def job_secret(job_id: str) -> Key:
    """The row with the data token of a job."""
    return {"pk": f"{_JOB}{job_id}", "sk": "secret"}


def counted(job_id: str, child: str) -> Key:
    """Marks that a definition has counted the success of a job."""
    return {"pk": f"{_JOB}{job_id}", "sk": f"{_COUNTED}{child}"}


def watch(job_id: str) -> Key:
    """The row with the time at which the tick checks a live job next."""
    return {"pk": f"{_JOB}{job_id}", "sk": "watch"}


def step(job_id: str, run: int, index: int) -> Key:
    return {"pk": f"{_JOB}{job_id}", "sk": f"r{run:04d}#{index:05d}"}


def steps_of_run(job_id: str, run: int, first: int = 0, last: int = MAX_STEP) -> tuple[Partition, Range]:
    start, end = (step(job_id, run, index) for index in (first, last))
    return partition_of(start), key_range(start, end)


def steps_of_runs(job_id: str) -> tuple[Partition, Range]:
    """The steps of all runs of a job."""
    start, end = step(job_id, 0, 0), step(job_id, _MAX_RUN, MAX_STEP)
    return partition_of(start), key_range(start, end)


def step_reference(step: StepKey) -> str:
    """A step as the value of an attribute; `parse_step_reference` reads it."""
    return "#".join(map(str, step))


def parse_step_reference(text: str) -> StepKey:
    job_id, run, index = text.split("#")
    return job_id, int(run), int(index)


def run_reference(job_id: str, run: int) -> str:
    """A run of a job as the value of an attribute; `parse_run_reference` reads it."""
    return f"{job_id}#{run}"


def parse_run_reference(text: str) -> tuple[str, int]:
    job_id, run = text.split("#")
    return job_id, int(run)


def dead_letter(letter_id: str) -> Key:
    """A dead letter; ids begin with a time, so that they sort by it."""
    return {"pk": "DEAD", "sk": letter_id}


def token(token_id: str) -> Key:
    """A token of the API; the permissions of functions/authorizer name this partition."""
    return {"pk": "TOKENS", "sk": token_id}


def token_rate(token_id: str, window: int) -> Key:
    """The requests of a token in a window of time."""
    return {"pk": f"RATE#{token_id}", "sk": str(window)}


def application(name: str) -> Key:
    """The counters for the limits of an application."""
    return {"pk": application_reference(name), "sk": "use"}


def application_reference(name: str) -> str:
    """An application as the value of an attribute; never empty, even if its name is."""
    return f"{_APPLICATION}{name}"


def parse_application(reference: str) -> str:
    return reference.removeprefix(_APPLICATION)


def awe_server() -> Key:
    """The identity of the deployment as an AWE server."""
    return {"pk": "AWE", "sk": "server"}


def node(node_id: str) -> Key:
    """A node of the node store."""
    return {"pk": f"NODE#{node_id}", "sk": "node"}


def node_reader(node_id: str, token: str, job_id: str) -> Key:
    """A job that reads a node; `token` is the hash of its data token."""
    return {"pk": f"NODE#{node_id}", "sk": f"{_READER}{token}#{job_id}"}


def node_readers(token: str) -> tuple[str, str]:
    return prefix(f"{_READER}{token}#")


def worker(worker_id: str) -> Key:
    return {"pk": f"WORKER#{worker_id}", "sk": "worker"}


def slots(line: str) -> Key:
    return {"pk": f"SLOTS#{line}", "sk": "slots"}


def slot_waiter(line: str, jid: int) -> Key:
    return {"pk": f"SLOTS#{line}", "sk": f"{_WAITER}{sort_number(jid)}"}


def only_run(line: str) -> Key:
    return {"pk": f"SLOTS#{line}", "sk": "only"}


def parse_slot_waiter(item: Mapping[str, Any]) -> int:
    """The number of the job in the key of a `slot_waiter`."""
    return int(str(item["sk"]).removeprefix(_WAITER))


SLOT_WAITERS = prefix(_WAITER)


def sort_time(milliseconds: int) -> str:
    """A time as text that sorts in the same order, times before 1970 included."""
    return f"{milliseconds + MAX_TIME:015d}"


def sort_number(number: int) -> str:
    """A number as text that sorts in the same order."""
    return f"{number:012d}"
