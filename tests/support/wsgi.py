"""The HTTP API of a cloud as a WSGI application, for tools that call one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from support.moto.cloud import Cloud


def wsgi_app(cloud: Callable[[], Cloud]) -> Callable[..., Iterable[bytes]]:
    """An application that passes requests to the cloud that exists when they come."""

    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path = quote(environ["PATH_INFO"].encode("latin-1").decode(errors="replace"), safe="/:")
        query = f"?{environ['QUERY_STRING']}" if environ.get("QUERY_STRING") else ""
        length = int(environ.get("CONTENT_LENGTH") or 0)
        body = environ["wsgi.input"].read(length) if length else None
        headers = {
            name[5:].replace("_", "-").lower(): value
            for name, value in environ.items()
            if name.startswith("HTTP_")
        }
        if environ.get("CONTENT_TYPE"):
            headers["content-type"] = environ["CONTENT_TYPE"]
        answer = cloud().http(environ["REQUEST_METHOD"], path + query, body, token=None, headers=headers)
        status = f"{answer.status} {HTTPStatus(answer.status).phrase}"
        start_response(status, list(answer.headers.items()))
        return [answer.text.encode()]

    return app
