"""Lambda authorizer of the HTTP API: finds the actor of a token; the API rejects requests without one."""

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from shardmill.aws.clock import now_ms
from shardmill.aws.observability import API_REQUEST, logger, observed
from shardmill.engine.authorize import authorizer, context_of, schemes_of, token_in


@observed(API_REQUEST)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    token = token_in(event.get("headers") or {}, schemes_of(event.get("rawPath", "")))
    actor = authorizer().actor(token, now_ms())
    extra = {"action": "authorize", "tokenId": actor.token_id if actor else ""}
    logger.info("token accepted" if actor else "no valid token", extra=extra)
    return {"isAuthorized": True, "context": context_of(actor)}
