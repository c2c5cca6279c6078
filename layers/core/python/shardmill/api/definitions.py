"""/v1/definitions"""

from __future__ import annotations

from typing import Annotated, Any

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Header
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter

from shardmill.api import pages
from shardmill.api.answers import JSON, actor, etag, expected_version, no_content, now
from shardmill.api.pages import Cursor, Limit, Page
from shardmill.engine import definitions
from shardmill.engine.mill import mill
from shardmill.model.base import Answer, from_ms
from shardmill.model.definition import SavedDefine
from shardmill.model.fault import Fault
from shardmill.model.validate import check_definition, public_document
from shardmill.store.definitions import Definition

router = APIGatewayHttpRouter()

Document = Annotated[Any, Body(description="a JobDefine")]
IfMatch = Annotated[str | None, Header(alias="if-match", description="the ETag that must still hold")]
IfNoneMatch = Annotated[str | None, Header(alias="if-none-match", description="`*`: only if there is none")]


class Verdict(Answer):
    """What validation found; `definition` is the document in its canonical spelling."""

    valid: bool
    faults: list[Fault]
    definition: dict[str, Any] | None = None


def saved_view(saved: Definition) -> SavedDefine:
    return SavedDefine.model_validate(
        {
            **public_document(definitions.define_of(saved)),
            "version": saved.version,
            "createTime": from_ms(saved.create_time),
            "updateTime": from_ms(saved.update_time),
            "submitUser": saved.user,
            "updateUser": saved.user,
        }
    )


def _answer(saved: Definition, status: int = 200) -> Response[SavedDefine]:
    headers = {"etag": etag(saved.version), "location": f"/v1/definitions/{saved.job_name}"}
    return Response(status_code=status, content_type=JSON, body=saved_view(saved), headers=headers)


@router.post("/v1/definitions:validate", tags=["definitions"])
def validate(document: Document) -> Verdict:
    """Check a document and say every fault at once; changes nothing."""
    define, faults = check_definition(document)
    return Verdict(
        valid=define is not None, faults=faults, definition=public_document(define) if define else None
    )


@router.put("/v1/definitions/<job_name>", tags=["definitions"])
def save(
    job_name: str, document: Document, if_match: IfMatch = None, if_none_match: IfNoneMatch = None
) -> Response[SavedDefine]:
    """Save the next version of a definition."""
    expected = expected_version(if_match, if_none_match)
    saved = definitions.save(mill(), job_name, document, actor(router), now=now(), expected=expected)
    return _answer(saved, 201 if saved.version == 1 else 200)


@router.get("/v1/definitions/<job_name>", tags=["definitions"])
def read(job_name: str) -> Response[SavedDefine]:
    """The newest version of a definition."""
    return _answer(definitions.read(mill(), job_name))


@router.delete("/v1/definitions/<job_name>", tags=["definitions"])
def delete(job_name: str, if_match: IfMatch = None) -> Response[None]:
    """Delete a definition; Jobs that run keep the version they started with."""
    definitions.delete(mill(), job_name, expected=expected_version(if_match, None))
    return no_content()


@router.get("/v1/definitions", tags=["definitions"])
def list_definitions(limit: Limit = pages.DEFAULT_LIMIT, cursor: Cursor = None) -> Page[SavedDefine]:
    """Every definition, by name."""
    found = mill().definitions.page(after=pages.decode(cursor, str), limit=limit + 1)
    listed, more = pages.cut(found, limit)
    return Page(
        items=[saved_view(saved) for saved in listed],
        cursor=pages.encode(listed[-1].job_name) if more else None,
    )


@router.get("/v1/definitions/<job_name>/versions", tags=["definitions"])
def versions(job_name: str) -> Page[SavedDefine]:
    """Every version of a definition, newest first."""
    definitions.read(mill(), job_name)
    return Page(items=[saved_view(saved) for saved in mill().definitions.versions(job_name)])
