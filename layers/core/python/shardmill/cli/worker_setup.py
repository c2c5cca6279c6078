"""Checks and connections of `shardmill worker` before it takes tasks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import typer

from shardmill.cli import output
from shardmill.cli.exits import OTHER

if TYPE_CHECKING:
    from shardmill.worker.transport.base import Transport


def http_transport(url: str | None, token: str | None) -> Transport:
    from shardmill.client.connection import connection
    from shardmill.worker.isolation import protect
    from shardmill.worker.transport.http import HttpTransport

    found = connection(url, token, worker=True)
    protect(token)
    return HttpTransport(found.api, found.token, auth=found.auth())


def direct_transport(token: str | None) -> Transport:
    """Use the settings in the environment, or the settings of the running `shardmill dev`."""
    from shardmill.aws.settings import SettingMissing, Settings
    from shardmill.client.dev_session import find_session
    from shardmill.local.environment import worker_environment
    from shardmill.worker.isolation import protect
    from shardmill.worker.transport.direct import DirectTransport

    if "SHARDMILL_TABLE" not in os.environ and (session := find_session()):
        os.environ.update(worker_environment(session))
    try:
        settings = Settings.from_environment()
    except SettingMissing as error:
        output.message(str(error))
        raise typer.Exit(OTHER) from None
    protect(token)
    return DirectTransport(settings)


def check_task_user(name: str | None) -> None:
    """Fail at the start if every task would be rejected."""
    from shardmill.worker.outcome import TaskRejected
    from shardmill.worker.task.users import identity

    try:
        identity(None, False, name)
    except TaskRejected as error:
        output.message(f"--task-user {name}: {error}")
        raise typer.Exit(OTHER) from None
