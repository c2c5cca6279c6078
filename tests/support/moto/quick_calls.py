"""A call to moto without what the network and a large table would need; the answers stay the same."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from itertools import count
from threading import local
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch
from urllib.parse import urlsplit

from botocore import endpoint
from botocore.auth import SIGV4_TIMESTAMP, SigV4Auth
from botocore.awsrequest import AWSPreparedRequest
from botocore.compat import get_current_datetime
from botocore.regions import EndpointRulesetResolver
from botocore.useragent import UserAgentString
from moto import backend_index, backends
from moto.core import DEFAULT_ACCOUNT_ID, responses
from moto.core.base_backend import BackendDict
from moto.core.botocore_stubber import BotocoreStubber
from moto.core.request import Request, environ_key_for_header
from moto.dynamodb.models.dynamo_type import DynamoType, Item
from moto.dynamodb.models.table import Table

Method = Callable[..., Any]
_thread = local()
_EMPTY_SIGNATURE = "SignedHeaders=host, Signature=0"


@contextmanager
def quick_calls() -> Iterator[None]:
    with (
        services_found_once(),
        requests_without_forms(),
        requests_without_signatures(),
        user_agents_built_once(),
        endpoints_resolved_once(),
        requests_with_counted_ids(),
        texts_compared_directly(),
        partitions_queried_alone(),
    ):
        yield


@contextmanager
def services_found_once() -> Iterator[None]:
    """moto matches the URL of each request against the patterns of all services."""
    found: dict[str, Method | None] = {}
    original: Method = BotocoreStubber.process_request

    def process_request(self: BotocoreStubber, request: AWSPreparedRequest) -> Any:
        url = request.url
        if url not in found:
            found[url] = _handler(url)
        handle = found[url]
        if handle is None:
            return original(self, request)
        normal = Request.from_primitives(request.method, url, request.headers, request.body)
        try:
            return handle(normal, url, normal.headers)
        except responses.HTTPException as error:
            return error.code, error.get_headers(), error.get_body()

    with patch.object(BotocoreStubber, "process_request", process_request):
        yield


def _handler(url: str) -> Method | None:
    """What answers the requests to a service of AWS with one URL; None for any other."""
    if not re.fullmatch(r"https://(dynamodb|sqs|states|events)\.[a-z0-9-]+\.amazonaws\.com/", url):
        return None
    service = next(name for name, pattern in backend_index.backend_url_patterns if pattern.match(url))
    backend = backends.get_backend(service)  # type: ignore[call-overload]
    if isinstance(backend, BackendDict):
        urls = backend[DEFAULT_ACCOUNT_ID]["us-east-1"].urls
        return next(handle for pattern, handle in urls.items() if re.match(pattern, url))
    return None


@contextmanager
def requests_without_forms() -> Iterator[None]:
    """moto builds each request as a test client builds that of a browser, with forms and files."""
    original: Method = Request.from_primitives

    def from_primitives(cls: type[Request], method: str, url: str, headers: Any, body: Any = None) -> Request:
        parts = urlsplit(url)
        if parts.path != "/" or parts.query or not isinstance(body, bytes):
            return original(method, url, headers, body)  # type: ignore[no-any-return]
        environ: dict[str, Any] = {
            "REQUEST_METHOD": method,
            "SCRIPT_NAME": "",
            "PATH_INFO": "/",
            "QUERY_STRING": "",
            "REQUEST_URI": "/",
            "RAW_URI": "/",
            "SERVER_NAME": parts.hostname,
            "SERVER_PORT": str(parts.port or (443 if parts.scheme == "https" else 80)),
            "SERVER_PROTOCOL": "HTTP/1.1",
            "HTTP_HOST": parts.netloc,
            "CONTENT_LENGTH": str(len(body)),
            "wsgi.url_scheme": parts.scheme,
            "wsgi.input": BytesIO(body),
        }
        for name, value in headers.items():
            text = value.decode() if isinstance(value, bytes) else value
            environ[environ_key_for_header(name)] = text
        return cls(environ)

    with patch.object(Request, "from_primitives", classmethod(from_primitives)):
        yield


@contextmanager
def requests_without_signatures() -> Iterator[None]:
    """moto reads the key and the region of a signature and checks nothing. Presigned URLs keep theirs."""
    original: Method = SigV4Auth.add_auth

    def add_auth(self: SigV4Auth, request: Any) -> None:
        if type(self) is not SigV4Auth or self.credentials is None:
            original(self, request)
            return
        request.context["timestamp"] = get_current_datetime().strftime(SIGV4_TIMESTAMP)
        self._modify_request_before_signing(request)
        credential = f"AWS4-HMAC-SHA256 Credential={self.scope(request)}"
        request.headers["Authorization"] = f"{credential}, {_EMPTY_SIGNATURE}"

    with patch.object(SigV4Auth, "add_auth", add_auth):
        yield


@contextmanager
def user_agents_built_once() -> Iterator[None]:
    """botocore joins the parts of the User-Agent header, and checks each character, for each call."""
    build: Method = UserAgentString.to_string

    def to_string(self: UserAgentString) -> str:
        if "kept" not in vars(self):
            vars(self)["kept"] = build(self)
        return str(vars(self)["kept"])

    with patch.object(UserAgentString, "to_string", to_string):
        yield


@contextmanager
def endpoints_resolved_once() -> Iterator[None]:
    """botocore applies the rules for endpoints to the parameters of each call.

    Those of these services depend on the client alone: no client here has the id of an account."""
    resolve: Method = EndpointRulesetResolver.construct_endpoint

    def construct_endpoint(self: Any, operation_model: Any, *args: Any, **asked: Any) -> Any:
        if operation_model.service_model.service_name not in ("dynamodb", "sqs", "stepfunctions"):
            return resolve(self, operation_model, *args, **asked)
        kept = vars(self).setdefault("kept", {})
        if operation_model.name not in kept:
            kept[operation_model.name] = resolve(self, operation_model, *args, **asked)
        return kept[operation_model.name]

    with patch.object(EndpointRulesetResolver, "construct_endpoint", construct_endpoint):
        yield


@contextmanager
def requests_with_counted_ids() -> Iterator[None]:
    """Each call takes random numbers from the system twice, for ids that nothing reads."""
    ids = count()

    def request_id(headers: dict[str, Any]) -> str:
        headers["x-amzn-requestid"] = f"{next(ids):052}"
        return str(headers["x-amzn-requestid"])

    counted = SimpleNamespace(uuid4=lambda: f"{next(ids):036}")
    with (
        patch.object(responses, "gen_amzn_requestid_long", request_id),
        patch.object(endpoint, "uuid", counted),
    ):
        yield


@contextmanager
def texts_compared_directly() -> Iterator[None]:
    """moto asks for six types of values before it takes a key as the text that it is."""
    cast: Method = vars(DynamoType)["cast_value"].fget

    def cast_value(self: DynamoType) -> Any:
        return self.value if self.type == "S" else cast(self)

    with patch.object(DynamoType, "cast_value", property(cast_value)):
        yield


@contextmanager
def partitions_queried_alone() -> Iterator[None]:
    """moto sorts all items of a table for each query, and then takes those of a partition and sorts them."""
    query: Method = Table.query
    every: Method = Table.all_items

    def query_partition(self: Table, hash_key: DynamoType | None, *args: Any, **asked: Any) -> Any:
        index = args[6] if len(args) > 6 else asked.get("index_name")
        own = [(self.hash_key_attr, hash_key)]
        keys = asked.get("hash_key_conditions") if index else own
        if keys and self.range_key_attr and all(value and value.type == "S" for _, value in keys):
            _thread.keys = [(name, value.value) for name, value in keys]
            _thread.partition = None if index else hash_key
        try:
            return query(self, hash_key, *args, **asked)
        finally:
            _thread.keys = None

    def all_items(self: Table) -> list[Item]:
        keys = getattr(_thread, "keys", None)
        if not keys:
            return every(self)  # type: ignore[no-any-return]
        if _thread.partition is not None:
            return list(self.items.get(_thread.partition, {}).values())
        return [item for part in self.items.values() for item in part.values() if _has(item, keys)]

    with patch.object(Table, "query", query_partition), patch.object(Table, "all_items", all_items):
        yield


def _has(item: Item, keys: list[tuple[str, str]]) -> bool:
    for name, text in keys:
        value = item.attrs.get(name)
        if value is None or value.type != "S" or value.value != text:
            return False
    return True
