"""The current time, waiting, and new ids; the engine takes them as arguments."""

import secrets
import time
import uuid


def now_ms() -> int:
    return int(time.time() * 1000)


def wait_until(moment: int) -> None:
    """Sleep until a time in milliseconds since 1970, at most a second."""
    time.sleep(min(max(0.0, moment / 1000 - time.time()), 1.0))


def new_id() -> str:
    return str(uuid.uuid4())


def random_bytes(count: int) -> bytes:
    """Random bytes for secrets."""
    return secrets.token_bytes(count)
