"""The HTTP API as a Lambda handler: checks a request, finds its route, and answers errors as problem+json."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from aws_lambda_powertools.event_handler.openapi.exceptions import RequestValidationError
from aws_lambda_powertools.utilities.typing import LambdaContext

from shardmill.api import conditional, problems, request_checks
from shardmill.api.access.enforce import check_access
from shardmill.api.routes import ROUTES, Route, allowed_methods, find_route, is_awe, normal_path
from shardmill.aws.observability import logger
from shardmill.engine.errors import MethodNotAllowed, MillError, NoSuchPath


def resolve(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Answer one event of the HTTP API."""
    method, path = event["requestContext"]["http"]["method"], normal_path(event["rawPath"])
    if identity := event["requestContext"].get("authorizer", {}).get("iam"):
        from shardmill.engine.access.iam import path_below  # few deployments have these routes

        path = path_below(path, identity)
    event["rawPath"] = path
    extra = {"action": "http-request", "method": method, "path": path, "requestId": context.aws_request_id}
    quiet = 0
    try:
        if is_awe(path):
            request_checks.authenticate(event)
        route = find_route(method, path, event.get("queryStringParameters") or {})
        actor = request_checks.check_caller(event, route)
        if route is not None and actor is not None and not route.public:
            check_access(route, path, actor)
        request_checks.check_content(event, route)
        if route is None:
            raise _no_route(method, path)
        quiet = route.idle_status
        answer = _answer_awe(event, route) if route.awe else _answer(event, context, route)
    except conditional.NotModified as same:
        answer = conditional.not_modified(same.etag)
    except MillError as error:
        answer = fault(path, error)
    except Exception as error:
        known = problems.known_error(error)
        if known is None:
            logger.exception("the request failed with an unexpected error", extra=extra)
        else:
            logger.warning("the request failed and may be retried", extra={**extra, "error": str(error)})
        answer = fault(path, known or problems.internal_error(context.aws_request_id))
    log = logger.debug if answer["statusCode"] == quiet else logger.info
    log("answered a request", extra={**extra, "status": answer["statusCode"]})
    return answer


def _answer(event: dict[str, Any], context: LambdaContext, route: Route) -> dict[str, Any]:
    return conditional.add_etag(event, app_of_module(route.module).resolve(event, context))


def _answer_awe(event: dict[str, Any], route: Route) -> dict[str, Any]:
    from shardmill.api.awe.awe_request import answer  # imported here because few deployments have AWE clients

    return answer(event, route)


def fault(path: str, error: MillError) -> dict[str, Any]:
    """The response for an error, in the form that callers of the path expect."""
    if not is_awe(path):
        return problems.answer(error)
    from shardmill.api.awe import envelope

    return envelope.fault(error)


@cache
def app_of_module(module: str) -> APIGatewayHttpResolver:
    """The resolver of one module's routes; the first call imports the module."""
    return make_app(route for route in ROUTES if route.module == module)


def make_app(routes: Iterable[Route]) -> APIGatewayHttpResolver:
    app = APIGatewayHttpResolver(enable_validation=True)

    @app.exception_handler([MillError, RequestValidationError])
    def handle(error: MillError | RequestValidationError) -> Response[str]:
        refused = error if isinstance(error, MillError) else problems.not_valid(error.errors())
        answer = problems.answer(refused)
        return Response(answer["statusCode"], problems.MEDIA_TYPE, answer["body"], answer["headers"])

    for route in routes:
        app.route(route.path, route.method, tags=[route.tag], include_in_schema=route.documented)(
            route.load()
        )
    return app


def _no_route(method: str, path: str) -> MillError:
    allowed = allowed_methods(path)
    if allowed:
        return MethodNotAllowed(method, path, allowed)
    return NoSuchPath(f"no route for {path}; GET /openapi.json describes the API")
