"""validate, define, graph"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from shardmill.cli import output
from shardmill.cli.exits import OTHER
from shardmill.cli.options import HoldReason, JobName, Json, Token, Url, hand_down

if TYPE_CHECKING:
    from shardmill.model.definition.fields import JobDefine
    from shardmill.model.fault import Fault

File = Annotated[
    str, typer.Argument(metavar="FILE", help="A definition in JSON or YAML; - is standard input.")
]
Files = Annotated[
    list[str], typer.Argument(metavar="FILE…", help="Definitions in JSON or YAML; - is standard input.")
]
Drawn = Annotated[
    str | None,
    typer.Argument(metavar="JOB|FILE", show_default=False, help="A saved definition, or a file with one."),
]
Jobs = Annotated[
    bool, typer.Option("--jobs", help="Draw which definitions wait for which, with their schedules.")
]
Format = Annotated[Literal["text", "mermaid", "dot"], typer.Option("--format", help="How to draw it.")]
_SUFFIXES = {".json", ".yaml", ".yml"}


def validate(file: File, as_json: Json = False) -> None:
    """Check a definition; needs no server.

    Says every fault at once, each with its JSON pointer.

    \b
    Examples:
      shardmill validate examples/balance-report.yaml
      shardmill validate job.json --json
      generate-job | shardmill validate -
    """
    define, faults = _checked(file)
    if as_json:
        output.json_document({"valid": not faults, "faults": [fault.model_dump() for fault in faults]})
    elif define:
        output.line(f"{define.job_name} is valid: {_extent(define)}")
    if faults:
        if not as_json:
            raise _invalid(file, faults)
        raise typer.Exit(OTHER)


def define(files: Files, url: Url = None, token: Token = None, as_json: Json = False) -> None:
    """Save definitions.

    Each is saved as the next version of its name. All files are checked before the first is saved.

    \b
    Examples:
      shardmill define examples/balance-report.yaml
      shardmill define jobs/*.yaml
    """
    from shardmill.client import Client
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
                held = f"; {output.cell(saved.suspended)}" if saved.suspended else ""
                output.line(f"{saved.job_name} version {saved.version} saved: {_extent(saved)}{held}")


def graph(
    name: Drawn = None,
    jobs: Jobs = False,
    form: Format = "text",
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Draw the steps of a definition, or all definitions.

    \b
    Examples:
      shardmill graph balance-report
      shardmill graph examples/balance-report.yaml --format mermaid
      shardmill graph balance-report --format dot | dot -Tsvg > graph.svg
      shardmill graph --jobs
    """
    from shardmill.cli.render import graph as step_graph

    if jobs == (name is not None):
        raise typer.BadParameter("give either a definition or --jobs", param_hint="JOB|FILE")
    if name is None:
        found, text = _job_graph(form, url, token)
    else:
        drawn = _define_of(name, url, token)
        found, text = step_graph.graph(drawn), step_graph.FORMATS[form](drawn)
    if as_json:
        output.json_document({**found, "format": form, "text": text})
    else:
        output.line(text)


def _job_graph(form: str, url: str | None, token: str | None) -> tuple[dict[str, Any], str]:
    from shardmill.cli.render import definition_graph
    from shardmill.client import Client

    with Client(url, token) as client:
        found = client.job_graph()
    if not found.nodes:
        output.message("there is no definition yet")
    return found.model_dump(mode="json"), definition_graph.FORMATS[form](found)


def _define_of(name: str, url: str | None, token: str | None) -> JobDefine:
    """A file if it looks like one: by its ending, a folder in its path, or because it is there."""
    path = Path(name)
    if name == "-" or path.suffix.lower() in _SUFFIXES or len(path.parts) > 1 or path.is_file():
        found, faults = _checked(name)
        if not found:
            raise _invalid(name, faults)
        return found
    from shardmill.client import Client

    with Client(url, token) as client:
        return client.definition(name)


def _checked(file: str) -> tuple[JobDefine | None, list[Fault]]:
    from shardmill.client.documents import load_document
    from shardmill.model.definition.validation import check_definition

    return check_definition(load_document(file))


def _invalid(file: str, faults: list[Fault]) -> Exception:
    from shardmill.client import Invalid

    number = output.many(len(faults), "fault")
    return Invalid(f"{file} is not a valid definition: it has {number}", faults=faults)


def _extent(define: JobDefine) -> str:
    from shardmill.model.definition.fields import total

    totals = [total(step) for step in define.steps]
    tasks = output.many(sum(each or 0 for each in totals), "task")
    return f"{output.many(len(totals), 'step')}, {tasks}{' and more' if None in totals else ''}"


if TYPE_CHECKING:
    from shardmill.model.definition.fields import ListedDefine, SavedDefine


def _described(listed: ListedDefine) -> str:
    """Those that are suspended say so before anything else."""
    held = f"({listed.suspended})" if listed.suspended else ""
    return " ".join(filter(None, (held, listed.description)))


_COLUMNS: dict[str, Callable[[ListedDefine], object]] = {
    "JOB": lambda listed: listed.job_name,
    "VERSION": lambda listed: listed.version,
    "STEPS": lambda listed: listed.step_count,
    "UPDATED": lambda listed: listed.update_time,
    "BY": lambda listed: listed.update_user,
    "DESCRIPTION": _described,
}

app = typer.Typer(invoke_without_command=True)


@app.callback()
def definitions(ctx: typer.Context, url: Url = None, token: Token = None, as_json: Json = False) -> None:
    """List the saved definitions, or suspend or resume one.

    The description of one that is suspended begins with who did that and why.

    \b
    Examples:
      shardmill definitions
      shardmill definitions --json | jq -r '.[] | select(.suspended) | .jobName'
      shardmill definitions suspend balance-report --reason 'the source is wrong'
    """
    from shardmill.client import Client

    if ctx.invoked_subcommand:
        hand_down(ctx, url, token, as_json)
        return
    with Client(url, token) as client:
        output.listing(client.definitions(), _COLUMNS, as_json)


@app.command()
def suspend(
    job_name: JobName, reason: HoldReason = "", url: Url = None, token: Token = None, as_json: Json = False
) -> None:
    """Let no new Jobs of a definition start.

    Those that are there go on. Its schedules wait, and follow their catchUp when it is resumed.

    \b
    Examples:
      shardmill definitions suspend balance-report
      shardmill definitions suspend balance-report --reason 'the source is wrong'
    """
    from shardmill.client import Client

    with Client(url, token) as client:
        _tell(client.suspend_definition(job_name, reason), as_json)


@app.command()
def resume(
    job_name: JobName, reason: HoldReason = "", url: Url = None, token: Token = None, as_json: Json = False
) -> None:
    """Let Jobs of a definition start again.

    What its schedules missed they deal with as their catchUp says; what its parents started meanwhile, too.

    \b
    Examples:
      shardmill definitions resume balance-report
    """
    from shardmill.client import Client

    with Client(url, token) as client:
        _tell(client.resume_definition(job_name, reason), as_json)


def _tell(saved: SavedDefine, as_json: bool) -> None:
    if as_json:
        output.json_document(saved)
    else:
        output.line(f"{saved.job_name} version {saved.version} {output.cell(saved.suspended or 'resumed')}")
