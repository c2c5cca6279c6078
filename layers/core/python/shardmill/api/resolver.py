"""A resolver that answers every refusal as problem+json."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from aws_lambda_powertools.event_handler.exceptions import NotFoundError
from aws_lambda_powertools.event_handler.openapi.exceptions import RequestValidationError
from aws_lambda_powertools.utilities.typing import LambdaContext

from shardmill.api import problems, request_checks
from shardmill.api.routes import allowed_methods
from shardmill.aws.observability import logger
from shardmill.engine.errors import Busy, Internal, JobEnded, MethodNotAllowed, MillError, NoSuchPath
from shardmill.store.table import RowGone


def make_app() -> APIGatewayHttpResolver:
    app = APIGatewayHttpResolver(enable_validation=True)

    @app.exception_handler(MillError)
    def refused(error: MillError) -> Response[str]:
        return _refusal(error)

    @app.exception_handler(RowGone)
    def gone(_: RowGone) -> Response[str]:
        return _refusal(
            JobEnded("the Job was DELETED with all its rows while this was done; nothing is left")
        )

    @app.exception_handler(RequestValidationError)
    def not_valid(error: RequestValidationError) -> Response[str]:
        return _refusal(problems.not_valid(error.errors()))

    @app.not_found
    def no_route(_: NotFoundError) -> Response[str]:
        path, method = app.current_event.path, app.current_event.http_method
        allowed = allowed_methods(path)
        if allowed:
            return _refusal(MethodNotAllowed(method, path, allowed))
        return _refusal(NoSuchPath(f"there is nothing at {path}; GET /openapi.json describes what there is"))

    return app


def resolve_with(
    app: APIGatewayHttpResolver, event: dict[str, Any], context: LambdaContext
) -> dict[str, Any]:
    request_id = context.aws_request_id
    http = event["requestContext"]["http"]
    extra = {"action": "http", "method": http["method"], "path": event["rawPath"], "requestId": request_id}
    try:
        request_checks.check(event)
        answer = app.resolve(event, context)
    except MillError as error:
        answer = problems.answer(error)
    except Exception as error:
        logger.exception("a request failed", extra=extra)
        answer = problems.answer(_fault_of(error, request_id))
    logger.info("answered", extra={**extra, "status": answer["statusCode"]})
    return answer


def _refusal(error: MillError) -> Response[str]:
    answer = problems.answer(error)
    return Response(answer["statusCode"], problems.MEDIA_TYPE, answer["body"], answer["headers"])


def _fault_of(error: Exception, request_id: str) -> MillError:
    """What a caller hears of something that no use case has a word for."""
    from shardmill.store.table import (  # boto3 comes with it, which some requests need not
        Contended,
        Throttled,
    )

    if isinstance(error, (Contended, Throttled)):
        return Busy("too many write the same at once; nothing was changed, ask again")
    fault = Internal("this is a defect of Shardmill, or AWS did not answer; its log has the request id")
    fault.extra = {"requestId": request_id}
    return fault
