"""validate, define, graph, definitions: check, save, draw, list and suspend definitions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from shardmill.cli import complete, output
from shardmill.cli.exits import OTHER
from shardmill.cli.options import JobName, Json, Listing, SuspensionReason, Token, Url, pass_to_subcommand
from shardmill.cli.watch import Watch, show_list

if TYPE_CHECKING:
    from shardmill.model.definition.answers import ListedDefine, SavedDefine
    from shardmill.model.definition.fields import JobDefine
    from shardmill.model.fault import Fault

File = Annotated[str, typer.Argument(metavar="FILE", help="Definition in JSON or YAML; - is standard input.")]
Files = Annotated[
    list[str], typer.Argument(metavar="FILE…", help="Definitions in JSON or YAML; - is standard input.")
]
JobOrFile = Annotated[
    str | None,
    typer.Argument(
        metavar="JOB|FILE",
        show_default=False,
        help="Saved definition, or a definition file.",
        autocompletion=complete.definitions,
    ),
]
Jobs = Annotated[
    bool, typer.Option("--jobs", help="Draw the dependencies between all definitions, with their schedules.")
]
GraphFormat = Annotated[Literal["text", "mermaid", "dot"], typer.Option("--format", help="Output format.")]
_SUFFIXES = {".json", ".yaml", ".yml"}


def _describe(listed: ListedDefine) -> str:
    """Return the description; for a suspended definition it starts with the suspension."""
    suspended = f"({listed.suspended})" if listed.suspended else ""
    return " ".join(filter(None, (suspended, listed.description)))


_COLUMNS: dict[str, Callable[[ListedDefine], object]] = {
    "JOB": lambda listed: listed.job_name,
    "VERSION": lambda listed: listed.version,
    "STEPS": lambda listed: listed.step_count,
    "UPDATED": lambda listed: listed.update_time,
    "USER": lambda listed: listed.update_user,
    "DESCRIPTION": _describe,
}

app = typer.Typer(cls=Listing, invoke_without_command=True)


def validate(file: File, as_json: Json = False) -> None:
    """Check a definition without a server.

    Reports all faults at once, each with its JSON pointer.

    \b
    Examples:
      shardmill validate examples/balance-report.yaml
      shardmill validate job.json --json
      generate-job | shardmill validate -
    """
    define, faults = _check_file(file)
    if as_json:
        output.json_document({"valid": not faults, "faults": [fault.model_dump() for fault in faults]})
    elif define:
        output.line(f"{define.job_name} is valid: {_summary(define)}")
    if faults:
        if not as_json:
            raise _invalid(file, faults)
        raise typer.Exit(OTHER)


def define(files: Files, url: Url = None, token: Token = None, as_json: Json = False) -> None:
    """Save definitions.

    Each definition is saved as a new version. All files are checked before the first one is saved.

    \b
    Examples:
      shardmill define examples/balance-report.yaml
      shardmill define jobs/*.yaml
    """
    from shardmill.client.client import Client
    from shardmill.client.documents import load_document

    documents = {file: load_document(file) for file in files}
    with Client(url, token) as client:
        for file, document in documents.items():
            if faults := client.validate(document):
                raise _invalid(file, faults)
        for document in documents.values():
            saved = client.define(document)
            if as_json:
                output.json_line(saved)
            else:
                suspended = f"; {output.cell(saved.suspended)}" if saved.suspended else ""
                output.line(f"{saved.job_name} version {saved.version} saved: {_summary(saved)}{suspended}")


def graph(
    name: JobOrFile = None,
    jobs: Jobs = False,
    form: GraphFormat = "text",
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Draw the steps of a definition, or all definitions.

    With --jobs, draws the dependencies between all definitions.

    \b
    Examples:
      shardmill graph balance-report
      shardmill graph examples/balance-report.yaml --format mermaid
      shardmill graph balance-report --format dot | dot -Tsvg > graph.svg
      shardmill graph --jobs
    """
    from shardmill.cli.render import step_graph

    if jobs == (name is not None):
        raise typer.BadParameter("give either a definition or --jobs", param_hint="JOB|FILE")
    if name is None:
        found, text = _job_graph(form, url, token)
    else:
        definition = _find_definition(name, url, token)
        found, text = step_graph.nodes_and_edges(definition), step_graph.FORMATS[form](definition)
    if as_json:
        output.json_document({**found, "format": form, "text": text})
    else:
        output.line(text)


@app.callback()
def definitions(
    ctx: typer.Context,
    watch: Watch = False,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """List the saved definitions, or suspend or resume one.

    The description of a suspended definition starts with the user and the reason.

    \b
    Examples:
      shardmill definitions
      shardmill definitions --watch
      shardmill definitions --json | jq -r '.[] | select(.suspended) | .jobName'
      shardmill definitions suspend balance-report --reason 'wrong source data'
    """
    from shardmill.client.client import Client

    if ctx.invoked_subcommand:
        pass_to_subcommand(ctx, url, token, as_json)
        return
    with Client(url, token) as client:
        show_list(client.definitions, _COLUMNS, as_json, watch)


@app.command()
def suspend(
    job_name: JobName,
    reason: SuspensionReason = "",
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Suspend a definition: no new jobs of it start.

    Existing jobs continue. Its schedules pause, and handle missed times according to their --catch-up setting
    when the definition is resumed.

    \b
    Examples:
      shardmill definitions suspend balance-report
      shardmill definitions suspend balance-report --reason 'wrong source data'
    """
    from shardmill.client.client import Client

    with Client(url, token) as client:
        _show(client.suspend_definition(job_name, reason), as_json)


@app.command()
def resume(
    job_name: JobName,
    reason: SuspensionReason = "",
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Resume a suspended definition.

    Its schedules handle missed times according to their --catch-up setting. Jobs that parent jobs would have
    started during the suspension start now.

    \b
    Examples:
      shardmill definitions resume balance-report
    """
    from shardmill.client.client import Client

    with Client(url, token) as client:
        _show(client.resume_definition(job_name, reason), as_json)


def _show(saved: SavedDefine, as_json: bool) -> None:
    if as_json:
        output.json_document(saved)
    else:
        output.line(f"{saved.job_name} version {saved.version} {output.cell(saved.suspended or 'resumed')}")


def _job_graph(form: str, url: str | None, token: str | None) -> tuple[dict[str, Any], str]:
    from shardmill.cli.render import definition_graph
    from shardmill.client.client import Client

    with Client(url, token) as client:
        found = client.job_graph()
    if not found.nodes:
        output.message("no definitions found; save one with: shardmill define FILE")
    return found.model_dump(mode="json"), definition_graph.FORMATS[form](found)


def _find_definition(name: str, url: str | None, token: str | None) -> JobDefine:
    """Read a file if the name has its suffix, contains a folder or exists; else a saved definition."""
    path = Path(name)  # which drops a leading "./"
    if name == "-" or path.suffix.lower() in _SUFFIXES or "/" in name or path.is_file():
        return read_definition(name)
    from shardmill.client.client import Client

    with Client(url, token) as client:
        return client.definition(name)


def read_definition(file: str) -> JobDefine:
    """Read a definition from a file. Raises Invalid."""
    found, faults = _check_file(file)
    if not found:
        raise _invalid(file, faults)
    return found


def _check_file(file: str) -> tuple[JobDefine | None, list[Fault]]:
    from shardmill.client.documents import load_document
    from shardmill.model.definition.validation import check_definition

    return check_definition(load_document(file))


def _invalid(file: str, faults: list[Fault]) -> Exception:
    from shardmill.client.errors import Invalid

    number = output.plural(len(faults), "fault")
    return Invalid(f"{file} is not a valid definition: {number}", faults=faults)


def _summary(define: JobDefine) -> str:
    from shardmill.model.definition.task_count import total

    totals = [total(step) for step in define.steps]
    tasks = output.plural(sum(each or 0 for each in totals), "task")
    return f"{output.plural(len(totals), 'step')}, {tasks}{' and more' if None in totals else ''}"
