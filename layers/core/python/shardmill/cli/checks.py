"""The checks of `shardmill doctor`: each reports its finding and, for a problem, what to do."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Literal

from shardmill.cli.output import plural

if TYPE_CHECKING:
    from shardmill.client.client import Client

Verdict = Literal["ok", "warning", "problem", "skipped"]

MIN_PYTHON = (3, 11)
PACKAGES = {"cli": ("typer", "rich", "httpx", "PyYAML", "pydantic"), "local": ("ministack",)}
MAX_SKEW_SECONDS = 60.0
OVERVIEW_ADVICE = (
    "the API may be overloaded: try again, then read the log of its function (docs/operations.md)"
)


@dataclass(frozen=True, slots=True)
class Finding:
    check: str
    verdict: Verdict
    found: str
    advice: str = ""


def machine_checks() -> Iterator[Finding]:
    """Python and the packages."""
    found = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < MIN_PYTHON:
        yield Finding("Python", "problem", found, "install Python 3.11 or newer")
    else:
        yield Finding("Python", "ok", found)
    for extra, packages in PACKAGES.items():
        missing = [name for name in packages if not _installed(name)]
        advice = f"install them: pip install 'shardmill[{extra}]'"
        verdict: Verdict = "problem" if extra == "cli" else "warning"
        if missing:
            yield Finding(f"packages ({extra})", verdict, f"{', '.join(missing)} missing", advice)
        else:
            yield Finding(f"packages ({extra})", "ok", "installed")


def _installed(package: str) -> bool:
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


def address_check(url: str | None, token: str | None) -> Finding:
    """Whether an address and a token are set, and from where."""
    from shardmill.client.connection import connection
    from shardmill.client.errors import NotConnected

    try:
        found = connection(url, token)
    except NotConnected as error:
        return Finding("address", "problem", "not set", error.detail)
    source = "--url" if url and url != os.environ.get("SHARDMILL_URL") else "SHARDMILL_URL"
    known = source if url or os.environ.get("SHARDMILL_URL") else "the running `shardmill dev`"
    return Finding("address", "ok", f"{found.url} (from {known})")


def api_checks(client: Client, now: datetime | None = None) -> Iterator[Finding]:
    """Check the API, its version, the clock, the token and the worker groups; stop at the first failure."""
    from shardmill.client.errors import Forbidden, ShardmillError, Unauthorized

    try:
        health = client.poll_health()
    except ShardmillError as error:
        yield Finding(
            "API", "problem", error.detail, "check the address, and that `shardmill dev` or the stack runs"
        )
        return
    yield Finding("API", "ok", "answers")
    yield _version(health.content)
    yield _clock(health.date, now or datetime.now(UTC))
    try:
        overview = client.poll_now().content
    except (Unauthorized, Forbidden) as error:
        yield Finding("token", "problem", error.detail, "set a token with the scope read in SHARDMILL_TOKEN")
        return
    except ShardmillError as error:
        yield Finding("overview", "problem", error.detail, OVERVIEW_ADVICE)
        return
    yield Finding("token", "ok", "accepted")
    yield from _groups(overview)


def _version(health: Any) -> Finding:
    """Compare the API's version with the version of this command."""
    own = version("shardmill")
    found = health.get("version") if isinstance(health, dict) else None
    if not found:
        return Finding("version", "warning", f"the API does not report its version; the command is {own}")
    if found != own:
        advice = "use the same version for both: deploy again, or install the other version of the command"
        return Finding("version", "warning", f"the API is {found}, the command is {own}", advice)
    return Finding("version", "ok", own)


def _clock(date: str | None, now: datetime) -> Finding:
    """Compare the clocks; the API's has whole seconds."""
    try:
        skew = (now - parsedate_to_datetime(date or "")).total_seconds()
    except ValueError:
        return Finding("clock", "skipped", "the API does not report its time")
    if abs(skew) > MAX_SKEW_SECONDS:
        way = "ahead of" if skew > 0 else "behind"
        advice = "synchronise it, for example with chrony: AWS rejects requests signed with a wrong time"
        return Finding("clock", "problem", f"{abs(skew):.0f} seconds {way} the API", advice)
    return Finding("clock", "ok", f"within {max(1, round(abs(skew)))} s of the API")


def _groups(overview: dict[str, Any]) -> Iterator[Finding]:
    """Check that a pull group has a worker: without one, it runs no task."""
    for group in overview["groups"]:
        name = f"group {group['name']}"
        if group.get("suspended"):
            yield Finding(
                name, "warning", group["suspended"], f"resume it: shardmill groups resume {group['name']}"
            )
        elif group["kind"] != "pull":
            yield Finding(name, "ok", "runs on Lambda")
        elif not group["online"]:
            advice = f"start one: shardmill worker --group {group['name']}"
            yield Finding(name, "warning", "no worker is online", advice)
        else:
            online = plural(group["online"], "worker")
            yield Finding(name, "ok", f"{online}, {group['held']} of {group['slots']} slots in use")


def aws_checks() -> Iterator[Finding]:
    """Check the requirements of a worker with --aws: settings, credentials, the table and the queues."""
    from shardmill.aws.settings import SettingMissing, Settings
    from shardmill.client.dev_session import find_session
    from shardmill.local.environment import worker_environment

    if "SHARDMILL_TABLE" not in os.environ and (session := find_session()):
        os.environ.update(worker_environment(session))
    try:
        settings = Settings.from_environment()
    except SettingMissing as error:
        yield Finding("AWS", "skipped", f"{error}; only workers with --aws need it")
        return
    yield from _reach_aws(settings)


def _reach_aws(settings: Any) -> Iterator[Finding]:
    from botocore.exceptions import BotoCoreError, ClientError

    from shardmill.aws import clients
    from shardmill.engine.mill import Mill

    advice = "check the AWS credentials, the region and the policy of the worker's role (docs/aws.md)"
    try:
        group = Mill.connect(settings).groups.get("default")
    except (BotoCoreError, ClientError) as error:
        yield Finding("DynamoDB", "problem", str(error), advice)
        return
    yield Finding("DynamoDB", "ok", f"table {settings.table} answers")
    queues = group.queues if group else []
    try:
        for url in queues:
            clients.sqs().get_queue_attributes(QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"])
    except (BotoCoreError, ClientError) as error:
        yield Finding("SQS", "problem", str(error), advice)
        return
    yield Finding("SQS", "ok", f"{len(queues)} queues of the group default answer")
