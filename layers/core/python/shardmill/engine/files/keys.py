"""S3 keys of the deployment's bucket. No other module builds one."""

from __future__ import annotations

FILES, LOGS, UPLOADS = "files", "logs", "uploads"
_SUBMITTED = "given"


def job_prefixes(job_id: str) -> tuple[str, str]:
    """The prefixes of everything that is stored for a Job: its logs and its files."""
    return f"{LOGS}/{job_id}/", f"{FILES}/{job_id}/"


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


def upload(name: str) -> str:
    """A file that was uploaded for a Job which is not submitted yet."""
    return f"{UPLOADS}/{name}"


def owned_by(key: str, job_id: str) -> bool:
    """Whether a key lies outside the areas of this module, or belongs to the Job's own files."""
    area = next(filter(None, key.split("/")), "")
    return area not in (FILES, LOGS, UPLOADS) or key.startswith(f"{FILES}/{job_id}/")


def _attempt(area: str, job_id: str, run: int, step: int, rank: int, attempt: int) -> str:
    return f"{area}/{job_id}/{run}/{step}/{rank}/{attempt}/"
