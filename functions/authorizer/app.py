"""Stands before the routes: finds out whose token a request brings, if anybody's."""

import os
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from shardmill.aws.observability import logger
from shardmill.engine.authorize import authorize


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    actor = authorize(event.get("headers") or {}, os.environ["SHARDMILL_ADMIN_TOKEN_HASH"])
    logger.info("authorized" if actor else "no valid token", extra={"action": "authorize"})
    return {"isAuthorized": True, "context": {"actor": actor.name if actor else ""}}
