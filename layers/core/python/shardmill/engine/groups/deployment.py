"""What CloudFormation does not manage itself: built-in groups, queues of groups, executions and objects."""

from __future__ import annotations

from collections.abc import Callable

from shardmill.aws.data_keys import KeyParameter
from shardmill.engine.groups.groups import BUILT_IN_GROUPS, add_missing_queues, save
from shardmill.engine.mill import Mill
from shardmill.model.groups.group import GroupRequest

RESERVE_MS = 30_000
"""The time that is left to report to CloudFormation, which otherwise waits for its own timeout."""
_BATCH = 1_000


class NotRemoved(Exception):
    """Something of the deployment is left after all the time that the function has."""


def set_up(mill: Mill, now: int) -> None:
    """Create the key of secrets and the built-in groups, update the queues that Lambda serves, add others."""
    KeyParameter(mill.settings.key_parameter).create()
    for name, kind in BUILT_IN_GROUPS.items():
        if not mill.groups.get(name):
            save(mill, name, GroupRequest.model_validate({"kind": kind}), now)
    queues = list(mill.settings.lambda_queues)
    for group in mill.groups.page():
        if group.kind == "lambda" and list(group.queues) != queues:
            mill.groups.set_queues(group, queues)
        add_missing_queues(mill, group)


def tear_down(mill: Mill, remaining_ms: Callable[[], int]) -> None:
    """Stop all executions, delete the queues of groups and, unless it is retained, empty the bucket.

    Raises NotRemoved if the time does not suffice; a repetition continues.
    """
    while mill.machines.stop_running(_BATCH):
        _check_time(remaining_ms, "executions are running")
    mill.queues.remove(mill.queues.of_groups(mill.settings.queue_prefix))
    if mill.settings.empty_bucket:
        while not mill.files.remove("", most=_BATCH):
            _check_time(remaining_ms, f"objects are in the bucket {mill.settings.bucket}")
        KeyParameter(mill.settings.key_parameter).delete()


def _check_time(remaining_ms: Callable[[], int], what: str) -> None:
    if remaining_ms() < RESERVE_MS:
        raise NotRemoved(f"{what} after all the time of this function; delete the stack again to continue")
