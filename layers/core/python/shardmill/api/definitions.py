"""/v1/definitions: save, read and validate definitions."""

from __future__ import annotations

from typing import Annotated, Any

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Header, Query

from shardmill.api import pagination
from shardmill.api.pagination import Cursor, Limit, Page
from shardmill.api.responses import (
    JSON,
    NO_REASON,
    ReasonBody,
    actor,
    etag,
    expected_version,
    no_content,
    now,
    visible,
)
from shardmill.engine import definitions
from shardmill.engine.jobs.release_waiting import save_definition
from shardmill.engine.mill import mill
from shardmill.model.base import Answer
from shardmill.model.definition.answers import JobGraph, ListedDefine, SavedDefine
from shardmill.model.definition.fields import JobDefine
from shardmill.model.definition.validation import public_document
from shardmill.model.fault import Fault
from shardmill.model.timestamps import from_ms
from shardmill.store.definitions import Definition, Listed

MAX_DEFINITIONS_SCANNED = 2_000
DEFINITIONS_PER_QUERY = 500

Document = Annotated[Any, Body(description="a JobDefine")]
IfMatch = Annotated[
    str | None, Header(alias="if-match", description="the ETag that the current version must have")
]
IfNoneMatch = Annotated[
    str | None, Header(alias="if-none-match", description="`*`: only if it does not exist")
]


Version = Annotated[int | None, Query(ge=1, lt=10**8, description="default: the newest version")]


class Verdict(Answer):
    """The result of validation; `definition` is the document in its canonical form."""

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
            "suspended": saved.suspended or None,
        }
    )


def listed_view(listed: Listed) -> ListedDefine:
    return ListedDefine(
        job_name=listed.job_name,
        version=listed.version,
        description=listed.description or None,
        app_name=listed.app_name or None,
        step_count=listed.step_count,
        create_time=from_ms(listed.create_time),
        update_time=from_ms(listed.update_time),
        submit_user=listed.user,
        update_user=listed.user,
        suspended=listed.suspended or None,
    )


def _answer(saved: Definition, status: int = 200) -> Response[SavedDefine]:
    headers = {"etag": etag(saved.version), "location": f"/v1/definitions/{saved.job_name}"}
    return Response(status_code=status, content_type=JSON, body=saved_view(saved), headers=headers)


def validate(document: Annotated[Any, Body(description="any JSON, to be checked as a JobDefine")]) -> Verdict:
    """Validate a definition and list all faults, without saving it."""
    define, faults = definitions.validate(mill(), document, visible("define"))
    return Verdict(
        valid=define is not None, faults=faults, definition=public_document(define) if define else None
    )


def graph() -> JobGraph:
    """Get the dependencies between definitions, and which of them have schedules."""
    return definitions.graph(mill(), visible())


def save(
    job_name: str, document: Document, if_match: IfMatch = None, if_none_match: IfNoneMatch = None
) -> Response[SavedDefine]:
    """Save the next version of a definition."""
    expected, caller = expected_version(if_match, if_none_match), actor()

    def check(define: JobDefine) -> list[Fault]:
        if not any(file.s3 for step in define.steps for file in (*step.inputs, *step.predata)):
            return []
        from shardmill.engine.nodes.inputs import unknown_nodes  # few definitions name objects in S3

        return unknown_nodes(mill(), caller, define)

    saved = save_definition(mill(), job_name, document, caller, now=now(), expected=expected, check=check)
    return _answer(saved, 201 if saved.version == 1 else 200)


def read(job_name: str, version: Version = None) -> Response[SavedDefine]:
    """Get a definition, in its newest version by default."""
    return _answer(definitions.read(mill(), job_name, version, visible()))


def delete(job_name: str, if_match: IfMatch = None) -> Response[None]:
    """Delete a definition; running Jobs keep the version they started with."""
    definitions.delete(mill(), job_name, visible(), expected=expected_version(if_match, None))
    return no_content()


def suspend(job_name: str, request: ReasonBody = NO_REASON) -> SavedDefine:
    """Suspend a definition: no new Jobs start and schedules wait; running Jobs continue."""
    return saved_view(definitions.suspend(mill(), job_name, actor(), request.reason, now()))


def resume(job_name: str, request: ReasonBody = NO_REASON) -> SavedDefine:
    """Resume a definition; schedules handle missed times according to their catchUp."""
    from shardmill.engine.schedules import manage  # imported here because few requests need it

    return saved_view(manage.resume_definition(mill(), job_name, now()))


def list_definitions(limit: Limit = pagination.DEFAULT_LIMIT, cursor: Cursor = None) -> Page[ListedDefine]:
    """List definitions by name, without their steps."""
    seen = visible()
    chunk = limit + 1 if seen.all else DEFINITIONS_PER_QUERY
    rows = mill().definitions.page(after=pagination.decode_cursor(cursor, str), limit=chunk)
    found = ((row.job_name, listed_view(row) if seen.listed(row) else None) for row in rows)
    return pagination.page(found, limit, max_scanned=MAX_DEFINITIONS_SCANNED, look_ahead=not seen.all)


def versions(
    job_name: str, limit: Limit = pagination.DEFAULT_LIMIT, cursor: Cursor = None
) -> Page[ListedDefine]:
    """List the versions of a definition, newest first, without their steps."""
    definitions.read(mill(), job_name)
    before = pagination.decode_cursor(cursor, int)
    rows = mill().definitions.versions(job_name, before=before, limit=limit + 1)
    seen = visible()
    found = ((row.version, listed_view(row) if seen.listed(row) else None) for row in rows)
    return pagination.page(found, limit, max_scanned=MAX_DEFINITIONS_SCANNED, look_ahead=not seen.all)
