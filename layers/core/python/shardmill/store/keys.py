"""The only place that spells a key.

Only a definition, a group, a worker and the identity of a Job are keyed by names; all other rows of a Job by
its id and run, so that nothing of an older Job of the same name can be met by accident.
"""

from __future__ import annotations

from shardmill.model.blocks import block_of, set_of

Key = dict[str, str]

LIST = "list"
NAME = "name"
STATE = "state"
DUE = "due"
DUE_PARTITION = "due"
DUE_SCHEDULES = "schedule"
DUE_BACKFILLS = "backfill"
DUE_DEADLINES = "deadline"
MEMBER = "worker#"
STUCK = "stuck#"
WAITER = "waiter#"
CHILD = "child#"
SCHEDULE = "s#"
OUTPUT = "o"
EVERY_GROUP = "*"


def definition_head(job_name: str) -> Key:
    return {"pk": f"DEF#{job_name}", "sk": "head"}


def definition_version(job_name: str, version: int) -> Key:
    return {"pk": f"DEF#{job_name}", "sk": f"v{version:08d}"}


def definition_child(job_name: str, child: str) -> Key:
    """A definition that depends on another, found from that one."""
    return {"pk": f"DEF#{job_name}", "sk": f"{CHILD}{child}"}


def schedule(job_name: str, schedule_id: str) -> Key:
    return {"pk": f"SCHED#{job_name}", "sk": f"{SCHEDULE}{schedule_id}"}


def skip(job_name: str, schedule_id: str, until: int) -> Key:
    """Times of a schedule that started nothing, by the last of them."""
    return {"pk": f"SKIP#{job_name}/{schedule_id}", "sk": sort_time(until)}


def backfill(job_name: str, schedule_id: str, number: int) -> Key:
    return {"pk": f"SCHED#{job_name}", "sk": f"{backfills_of(schedule_id)}{number:06d}"}


def backfills_of(schedule_id: str) -> str:
    return f"b#{schedule_id}#"


def run_at(job_name: str, data_time: int, job_id: str) -> Key:
    """A Job among those of its definition, in the order of their dataTimes."""
    return {"pk": f"RUN#{job_name}", "sk": f"{sort_time(data_time)}#{job_id}"}


def edge(parent: str, until: int, child_id: str, number: int) -> Key:
    """A Job that waits for Jobs of `parent`; in the order in which what it waits for ends."""
    return {"pk": f"EDGE#{parent}", "sk": f"{sort_time(until)}#{child_id}#{number:03d}"}


def identity(job_name: str, trigger: str) -> Key:
    return {"pk": f"NAME#{job_name}", "sk": trigger}


def counter(name: str) -> Key:
    return {"pk": "COUNTER", "sk": name}


def job(job_id: str) -> Key:
    return {"pk": f"JOB#{job_id}", "sk": "job"}


def deadline(job_id: str) -> Key:
    return {"pk": f"JOB#{job_id}", "sk": "deadline"}


def step(job_id: str, run: int, index: int) -> Key:
    return {"pk": f"JOB#{job_id}", "sk": f"r{run:04d}#{index:05d}"}


def task_partition(job_id: str, run: int, step: int, set_number: int) -> str:
    return f"T#{job_id}#{run}#{step}#{set_number}"


def block_set(job_id: str, run: int, step: int, number: int) -> Key:
    return {"pk": task_partition(job_id, run, step, number), "sk": "set"}


def block(job_id: str, run: int, step: int, number: int) -> Key:
    return {"pk": task_partition(job_id, run, step, set_of(number)), "sk": f"b{number:05d}"}


def attempt(job_id: str, run: int, step: int, rank: int, attempt: int, worker: str, outcome: str) -> Key:
    """Worker and outcome are in it, so that what a late or lying reporter says covers up nothing."""
    partition = task_partition(job_id, run, step, set_of(block_of(rank)))
    return {"pk": partition, "sk": f"{attempts_of(rank)}{attempt:05d}#{worker}#{outcome}"}


def attempts_of(rank: int) -> str:
    return f"a{rank:06d}#"


def worker(worker_id: str) -> Key:
    return {"pk": f"WORKER#{worker_id}", "sk": "worker"}


def group(name: str) -> Key:
    return {"pk": f"GROUP#{name}", "sk": "group"}


def member(group_name: str, worker_id: str) -> Key:
    return {"pk": f"GROUP#{group_name}", "sk": f"{MEMBER}{worker_id}"}


def stuck(group_name: str, job_id: str, run: int, step: int) -> Key:
    return {"pk": f"GROUP#{group_name}", "sk": f"{STUCK}{job_id}#{run}#{step}"}


def slots(line: str) -> Key:
    return {"pk": f"SLOTS#{line}", "sk": "slots"}


def slot_waiter(line: str, jid: int) -> Key:
    return {"pk": f"SLOTS#{line}", "sk": f"{WAITER}{sort_number(jid)}"}


def output(job_id: str, run: int, step: int, rank: int, attempt: int) -> Key:
    partition = task_partition(job_id, run, step, set_of(block_of(rank)))
    return {"pk": partition, "sk": f"{OUTPUT}{rank:06d}#{attempt:05d}"}


def sort_time(milliseconds: int) -> str:
    """A time as text that sorts like it, those before 1970 included."""
    return f"{milliseconds + 10**14:015d}"


def sort_number(number: int) -> str:
    """A growing number as text that sorts like it."""
    return f"{number:012d}"
