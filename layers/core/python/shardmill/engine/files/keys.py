"""S3 keys of the deployment's bucket. No other module builds one."""

from __future__ import annotations

FILES, LOGS, UPLOADS, DEAD_LETTERS, NODES = "files", "logs", "uploads", "dead-letters", "nodes"
_SUBMITTED = "given"


def job_prefixes(job_id: str) -> tuple[str, str]:
    """The prefixes of all objects of a Job: its logs and its files."""
    return f"{LOGS}/{job_id}/", files_of(job_id)


def files_of(job_id: str) -> str:
    """The prefix of the files of a Job: submitted files, and files that its tasks stored."""
    return f"{FILES}/{job_id}/"


def submitted_file(job_id: str, name: str) -> str:
    """A file that was submitted with a Job; with an empty name, the prefix of all of them."""
    return f"{FILES}/{job_id}/{_SUBMITTED}/{name}"


def output(job_id: str, run: int, step: int, rank: int, attempt: int, name: str) -> str:
    """A file that an attempt stored; keys contain the attempt, so two attempts never share an object."""
    return _attempt(FILES, job_id, run, step, rank, attempt) + name


def log(job_id: str, run: int, step: int, rank: int, attempt: int, stream: str) -> str:
    """The prefix of the chunks of an attempt's stdout or stderr."""
    return _attempt(LOGS, job_id, run, step, rank, attempt) + f"{stream}/"


def log_chunk(prefix: str, number: int) -> str:
    return f"{prefix}{number:06d}"


def cuts(job_id: str, run: int, step: int, fingerprint: str) -> str:
    """The byte offsets at which the input of a step is split."""
    return f"{FILES}/{job_id}/{run}/{step}/cuts-{fingerprint}"


def joined(job_id: str, run: int, step: int, fingerprint: str, name: str) -> str:
    """A file made of the parts that the tasks of a step stored."""
    return f"{FILES}/{job_id}/{run}/{step}/joined/{fingerprint}/{name}"


def unit_index(key: str, job_id: str, fingerprint: str) -> str:
    """The offsets of the units of an object: beside it, or else with the Job."""
    return f"{_home(key, job_id)}/indexes/{fingerprint}"


def byte_range(key: str, job_id: str, fingerprint: str) -> str:
    """A copy of some bytes of an object: beside it, or else with the Job."""
    return f"{_home(key, job_id)}/ranges/{fingerprint}"


def _home(key: str, job_id: str) -> str:
    area, _, rest = key.partition("/")
    owner = rest.partition("/")[0]
    return f"{area}/{owner}" if area in (FILES, NODES) and owner else f"{FILES}/{job_id}"


def node(node_id: str) -> str:
    """The prefix of all objects of a node of the node store."""
    return f"{NODES}/{node_id}/"


def node_file(node_id: str, sha256: str) -> str:
    """The file of a node of the node store; without a checksum, one that is made of parts."""
    return f"{NODES}/{node_id}/{sha256 or 'joined'}"


def node_part(node_id: str, number: int) -> str:
    """A part of a node's file; keys sort by number."""
    return f"{node_parts(node_id)}{number:06d}"


def node_parts(node_id: str) -> str:
    """The prefix of the parts of a node."""
    return f"{NODES}/{node_id}/parts/"


def node_copy(node_id: str, fingerprint: str) -> str:
    """A copy of the output of a job, made for another job that reads it."""
    return f"{NODES}/{node_id}/copies/{fingerprint}"


def node_of(key: str) -> str | None:
    """The id of the node that a key belongs to; None outside of the node store."""
    area, owner, *_ = *filter(None, key.split("/")), "", ""
    return owner if area == NODES else None


def output_attributes(job_id: str, run: int, step: int, rank: int, attempt: int, name: str) -> str:
    """The attributes that an AWE client sent with an output, until it reports the attempt."""
    return f"{FILES}/{job_id}/{run}/{step}/{rank}/attributes-{attempt}/{name}"


def checkpoints(job_id: str, run: int, step: int, rank: int) -> str:
    """The prefix of the checkpoints of a task."""
    return f"{FILES}/{job_id}/{run}/{step}/{rank}/checkpoints/"


def checkpoint(attempt: int) -> str:
    """The last part of the key of an attempt's checkpoint; keys sort by attempt."""
    return f"{attempt:08d}"


def upload(name: str) -> str:
    """A file that was uploaded for a Job which is not submitted yet."""
    return f"{UPLOADS}/{name}"


def dead_letter(letter_id: str) -> str:
    """The payload of a dead letter."""
    return f"{DEAD_LETTERS}/{letter_id}"


def owned_by(key: str, job_id: str) -> bool:
    """Whether a key lies outside the areas of this module, or belongs to the Job's own files."""
    area = next(filter(None, key.split("/")), "")
    return area not in (FILES, LOGS, UPLOADS, DEAD_LETTERS) or key.startswith(f"{FILES}/{job_id}/")


def _attempt(area: str, job_id: str, run: int, step: int, rank: int, attempt: int) -> str:
    return f"{area}/{job_id}/{run}/{step}/{rank}/{attempt}/"
