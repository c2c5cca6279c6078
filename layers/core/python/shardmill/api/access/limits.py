"""The limits of an application, and what it uses of them."""

from __future__ import annotations

from typing import Annotated

from aws_lambda_powertools.event_handler.openapi.params import Query

from shardmill.api.responses import actor
from shardmill.engine.access.limits import application_limits
from shardmill.engine.mill import mill
from shardmill.model.access.usage import ApplicationLimits

MAX_APPLICATION = 64


def read_limits(
    application: Annotated[
        str,
        Query(max_length=MAX_APPLICATION, description="appName of definitions; empty for those without one"),
    ] = "",
) -> ApplicationLimits:
    """Get the limits of an application, and what it uses of them.

    `used` is null if nothing is counted, or if the token may not read all of the application.
    """
    return application_limits(mill(), application, actor())
