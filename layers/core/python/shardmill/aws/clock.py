"""The current time and new ids; the engine takes both as arguments."""

import time
import uuid


def now_ms() -> int:
    return int(time.time() * 1000)


def new_id() -> str:
    return str(uuid.uuid4())
