"""Presigned URLs for the files of a task: inputs to download, and outputs to upload."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from shardmill.aws.files import ObjectRefused
from shardmill.aws.secrets import SecretUnavailable
from shardmill.engine.errors import FileForbidden, FileUnavailable
from shardmill.engine.files import split
from shardmill.engine.files.held_attempt import HeldAttempt
from shardmill.engine.files.sources import Source, Upstream, sources
from shardmill.engine.mill import Mill
from shardmill.engine.private_values import open_data_token, open_private, resolve
from shardmill.engine.template_context import context_of
from shardmill.model.files import File, fits
from shardmill.model.secrets.secret import DATA_TOKEN, is_reference, is_sealed
from shardmill.model.templates.render import TemplateError, render_value
from shardmill.model.transfers import Fetch, Prepared, StoreAnswer, StoreRequest, part_ranges
from shardmill.store.rows import StepRow


def prepare(mill: Mill, held: HeldAttempt) -> Prepared:
    """The downloads, outputs and secrets of a task. Raises FileUnavailable if one is not available."""
    spec, upstream = held.spec, Upstream(mill, held.step)
    fetches: list[Fetch] = []
    try:
        for declared, file in zip(spec.inputs, held.files(spec.inputs), strict=True):
            if spec.partition and declared.name == spec.partition.input:
                fetches.append(split.fetch_part(mill, held, file))
            else:
                fetches += _fetches(upstream, held.rank, file, "input")
        for file in held.files(spec.predata):
            fetches += _fetches(upstream, held.rank, file, "predata")
    except ObjectRefused as error:
        raise FileUnavailable(str(error)) from error
    try:
        environ = {**private_environ(mill, held), **_data_token(mill, held.step)}
    except (SecretUnavailable, TemplateError) as error:
        raise FileUnavailable(f"private environment variable: {error}") from error
    return Prepared(files=fetches, outputs=held.files(spec.outputs), environ=environ)


def _data_token(mill: Mill, step: StepRow) -> dict[str, str]:
    token = mill.data_tokens.get(step.job_id) if step.context.get("token") else None
    return {DATA_TOKEN: open_data_token(mill, step.job_id, token)} if token else {}


def private_environ(mill: Mill, held: HeldAttempt) -> dict[str, str]:
    """The private variables that are not in the lease: encrypted variables, and references to AWS
    services."""
    command, step = held.spec.command, held.step
    private = command.environ.private if command else {}
    context = context_of(step, held.spec, held.rank) if private else {}

    def rendered(text: str) -> str:
        return str(render_value(text, context, False))

    found = {
        name: rendered(open_private(mill, step.job_name, text))
        for name, text in private.items()
        if is_sealed(text)
    }
    app_name = step.context.get("app", "")
    named = {name: rendered(text) for name, text in private.items() if is_reference(text)}
    return found | {name: resolve(mill, reference, app_name) for name, reference in named.items()}


def _fetches(upstream: Upstream, rank: int, file: File, kind: str) -> Iterator[Fetch]:
    given = upstream.step.context.get("given", {})
    if file.url and file.name not in given:
        yield Fetch(
            name=file.name, kind=kind, url=file.url, plain=True, size=file.size, optional=file.optional
        )
        return
    for number, source in enumerate(sources(upstream, rank, file)):
        yield _fetch(upstream.mill, source, file, kind, number)


def _fetch(mill: Mill, source: Source, file: File, kind: str, number: int) -> Fetch:
    # A worker caches predata by its checksum, or by its ETag if the checksum is not known.
    head = mill.files.head(source.place) if kind == "predata" and not source.sha256 else None
    return Fetch(
        name=f"{file.name}.part-{number:06d}" if file.pattern else source.name,
        into=file.name if file.pattern else None,
        kind=kind,
        url=mill.files.get_url(source.place),
        size=head.size if head else source.size,
        sha256=source.sha256,
        etag=head.etag if head else None,
        optional=file.optional,
    )


def store(mill: Mill, held: HeldAttempt, wanted: Sequence[StoreRequest]) -> list[StoreAnswer]:
    """Presigned URLs for the parts of outputs. Raises FileForbidden for an undeclared output."""
    _check_declared(held, [each.name for each in wanted])
    for each in wanted:
        if len(each.md5s) != len(part_ranges(each.size)):
            raise FileUnavailable(
                f"{each.name!r} of {each.size} bytes needs {len(part_ranges(each.size))} md5s, one for each "
                f"part; got {len(each.md5s)}"
            )
    return [_store(mill, held, each) for each in wanted]


def _check_declared(held: HeldAttempt, names: Sequence[str]) -> None:
    outputs = [file.upload_name or file.name for file in held.files(held.spec.outputs)]
    for name in names:
        if not any(fits(name, output) for output in outputs):
            raise FileForbidden(f"step {held.step.name!r} declares no output {name!r}")


def _store(mill: Mill, held: HeldAttempt, wanted: StoreRequest) -> StoreAnswer:
    key = held.output_key(wanted.name)
    headers = [{"content-md5": md5} for md5 in wanted.md5s]
    if len(wanted.md5s) == 1:
        urls = [mill.files.put_url(key, ContentMD5=wanted.md5s[0])]
        return StoreAnswer(name=wanted.name, urls=urls, headers=headers)
    upload_id = mill.files.begin_parts(key)
    urls = [
        mill.files.part_url(key, upload_id, number, ContentMD5=md5)
        for number, md5 in enumerate(wanted.md5s, 1)
    ]
    return StoreAnswer(name=wanted.name, upload_id=upload_id, urls=urls, headers=headers)


def complete(mill: Mill, held: HeldAttempt, name: str, upload_id: str, etags: Sequence[str]) -> None:
    """Complete the multipart upload of an output."""
    _check_declared(held, [name])
    try:
        mill.files.join_parts(held.output_key(name), upload_id, etags)
    except ObjectRefused as error:
        raise FileUnavailable(f"{error}; store it again") from error
