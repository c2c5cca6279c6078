"""A resolver that answers every refusal as problem+json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from aws_lambda_powertools.event_handler.exceptions import NotFoundError
from aws_lambda_powertools.event_handler.openapi.exceptions import RequestValidationError
from aws_lambda_powertools.utilities.typing import LambdaContext

from shardmill.api import gate, problems
from shardmill.api.paths import allowed_methods
from shardmill.aws.observe import logger
from shardmill.engine.errors import Internal, MethodNotAllowed, MillError, NoSuchPath, RequestInvalid
from shardmill.model.fault import pointer

OPENAPI = Path(__file__).with_name("openapi.json")
_PLACES = ("body", "query", "path", "header")


def make_app() -> APIGatewayHttpResolver:
    app = APIGatewayHttpResolver(enable_validation=True)

    @app.exception_handler(MillError)
    def refused(error: MillError) -> Response[str]:
        return _refusal(error)

    @app.exception_handler(RequestValidationError)
    def not_valid(error: RequestValidationError) -> Response[str]:
        return _refusal(RequestInvalid("the request is not valid", faults=_faults(error)))

    @app.not_found
    def no_route(_: NotFoundError) -> Response[str]:
        path, method = app.current_event.path, app.current_event.http_method
        allowed = allowed_methods(OPENAPI, path)
        if allowed:
            return _refusal(MethodNotAllowed(method, path, allowed))
        return _refusal(NoSuchPath(f"there is nothing at {path}; GET /openapi.json describes what there is"))

    return app


def resolve_with(
    app: APIGatewayHttpResolver, event: dict[str, Any], context: LambdaContext
) -> dict[str, Any]:
    try:
        gate.check(event)
        answer = app.resolve(event, context)
    except MillError as error:
        answer = problems.answer(error)
    except Exception:
        logger.exception("a request failed", extra={"action": "http", "path": event["rawPath"]})
        request_id = context.aws_request_id
        fault = Internal("this is a defect of Shardmill, or AWS did not answer; its log has the request id")
        fault.extra = {"requestId": request_id}
        answer = problems.answer(fault)
    http = event["requestContext"]["http"]
    extra = {
        "action": "http",
        "method": http["method"],
        "path": event["rawPath"],
        "status": answer["statusCode"],
    }
    logger.info("answered", extra=extra)
    return answer


def _refusal(error: MillError) -> Response[str]:
    answer = problems.answer(error)
    return Response(answer["statusCode"], problems.MEDIA_TYPE, answer["body"], answer["headers"])


def _faults(error: RequestValidationError) -> list[dict[str, Any]]:
    return [
        {
            "pointer": pointer(tuple(each["loc"][1:] if each["loc"][0] in _PLACES else each["loc"])),
            "code": each["type"].replace("_", "-"),
            "message": each["msg"],
        }
        for each in error.errors()
    ]
