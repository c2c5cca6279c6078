"""Lambda authorizer of the HTTP API: finds the actor of a token; the API rejects requests without one."""

import os
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from shardmill.aws.observability import API_REQUEST, logger, observed
from shardmill.engine.authorize import authorize


@observed(API_REQUEST)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    actor = authorize(event.get("headers") or {}, os.environ["SHARDMILL_ADMIN_TOKEN_HASH"])
    logger.info("token accepted" if actor else "no valid token", extra={"action": "authorize"})
    return {"isAuthorized": True, "context": {"actor": actor.name if actor else ""}}
