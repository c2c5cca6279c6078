"""Set up and remove resources that CloudFormation does not manage: groups, queues, executions and objects."""

from __future__ import annotations

from collections.abc import Callable

from botocore.exceptions import ClientError

from shardmill.aws.data_keys import KeyParameter
from shardmill.engine.groups.groups import BUILT_IN_GROUPS, add_missing_queues, lambda_queues, save
from shardmill.engine.mill import Mill
from shardmill.model.groups.group import GroupRequest

RESERVE_MS = 30_000
"""The time reserved for the report to CloudFormation, which otherwise waits for its own timeout."""
QUIET_MS = 60_000
"""How long no new resource must have appeared: longer than the API's last request needs to create a queue,
and S3 to apply a bucket policy."""
_PAUSE_SECONDS = 10.0
_OBJECTS = 1_000
"""Maximum number of objects that one call deletes."""
_CALLS = 100
"""Executions of each state machine, or queues, between two checks of the time. Each takes a call; Step
Functions allows 25 a second in most regions."""
_PERMISSION_WAITS = (2.0, 5.0, 10.0, 20.0, 30.0)
"""Seconds before a refused call is repeated: the permissions of a new role take effect within a minute."""
_REFUSED = {"AccessDenied", "AccessDeniedException", "InvalidClientTokenId", "UnrecognizedClientException"}


class NotRemoved(Exception):
    """Resources of the deployment remain when the time of the function ends."""


def set_up(mill: Mill, now: int, wait: Callable[[float], None]) -> None:
    """Create the key of secrets and the built-in groups, update the queues that Lambda serves, add others.

    CloudFormation invokes the function as soon as its role exists, so calls may be refused at first.
    """
    waits = list(_PERMISSION_WAITS)
    while True:
        try:
            _set_up(mill, now)
            return
        except ClientError as error:
            if not waits or error.response["Error"]["Code"] not in _REFUSED:
                raise
        wait(waits.pop(0))


def _set_up(mill: Mill, now: int) -> None:
    KeyParameter(mill.settings.key_parameter).create()
    for name, kind in BUILT_IN_GROUPS.items():
        if not mill.groups.get(name):
            save(mill, name, GroupRequest.model_validate({"kind": kind}), now)
    queues = lambda_queues(mill)
    for group in mill.groups.page():
        if group.kind == "lambda" and list(group.queues) != queues:
            mill.groups.set_queues(group, queues)
        add_missing_queues(mill, group)


def tear_down(mill: Mill, remaining_ms: Callable[[], int], wait: Callable[[float], None]) -> None:
    """Stop all executions, delete the queues of groups and, unless it is retained, empty the bucket.

    CloudFormation has deleted the functions that write, but their last invocations may still run. So new
    objects are denied first, and the rest is repeated until nothing new was found for a while.
    Raises NotRemoved if the time does not suffice; a repetition continues.
    """
    empty_bucket = mill.settings.empty_bucket and mill.files.deny_writes()
    quiet_since = remaining_ms()
    while True:
        began = remaining_ms()
        found = _stop_executions(mill, remaining_ms, wait)
        _delete_queues(mill, remaining_ms)
        if empty_bucket and _empty_bucket(mill, remaining_ms):
            found = f"objects are in the bucket {mill.settings.bucket}"
        if found:
            quiet_since = began
        elif quiet_since - began >= QUIET_MS:
            break
        _check_time(remaining_ms, found or "the last invocations of the deleted functions may still run")
        wait(_PAUSE_SECONDS)
    if mill.settings.empty_bucket:
        KeyParameter(mill.settings.key_parameter).delete()


def _stop_executions(mill: Mill, remaining_ms: Callable[[], int], wait: Callable[[float], None]) -> str:
    """Stop all executions; return a description of the ones that were found."""
    found = ""
    while mill.machines.stop_running(_CALLS):
        found = "executions are running"
        _check_time(remaining_ms, found)
        wait(1.0)  # the list still contains executions that were just stopped
    return found


def _delete_queues(mill: Mill, remaining_ms: Callable[[], int]) -> None:
    """Delete the queues of groups. They are listed for up to a minute longer, which is no reason to wait."""
    queues = list(mill.queues.of_groups(mill.settings.queue_prefix))
    for first in range(0, len(queues), _CALLS):
        _check_time(remaining_ms, f"{len(queues) - first} queues are left")
        mill.queues.remove(queues[first : first + _CALLS])


def _empty_bucket(mill: Mill, remaining_ms: Callable[[], int]) -> bool:
    """Delete all objects; return whether there were any."""
    found = bool(mill.files.keys(""))
    while found and not mill.files.remove("", most=_OBJECTS):
        _check_time(remaining_ms, f"objects are in the bucket {mill.settings.bucket}")
    return found


def _check_time(remaining_ms: Callable[[], int], what: str) -> None:
    if remaining_ms() < RESERVE_MS:
        raise NotRemoved(f"{what} after all the time of this function; delete the stack again to continue")
