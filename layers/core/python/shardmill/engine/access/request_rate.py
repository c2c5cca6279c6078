"""The check of a token's rate of requests; without a limit it costs nothing."""

from __future__ import annotations

from functools import cache

from shardmill.aws import clients
from shardmill.aws.clock import now_ms
from shardmill.aws.observability import logger
from shardmill.engine.access.errors import TooManyRequests
from shardmill.engine.access.rate import TokenRates
from shardmill.engine.mill import mill
from shardmill.model.actor import Actor
from shardmill.model.errors import Transient


def check_rate(actor: Actor) -> None:
    """Raise TooManyRequests if the token of the actor sends more than the deployment allows."""
    rates = _rates()
    wait = rates.wait_seconds(actor.token_id or actor.name, now_ms()) if rates else 0
    if wait:
        raise TooManyRequests(wait)


@cache
def _rates() -> TokenRates | None:
    rate = mill().settings.token_rate
    return TokenRates(rate, _share) if rate else None


def _share(token_id: str, window: int, count: int) -> int | None:
    """Add to the shared count; if DynamoDB does not answer, only this process counts."""
    from botocore.exceptions import BotoCoreError, ClientError

    from shardmill.store.access.tokens import Rates
    from shardmill.store.table import Table

    try:
        table = Table(clients.dynamodb(), mill().settings.table)
        return Rates(table).add(token_id, window, count, now_ms())
    except (BotoCoreError, ClientError, Transient) as error:
        extra = {"action": "share-token-rate", "tokenId": token_id, "error": str(error)}
        logger.warning("failed to share the number of requests; this process counts alone", extra=extra)
        return None
