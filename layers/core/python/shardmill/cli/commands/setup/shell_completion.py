"""completion: complete commands, options and names in the shell."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from shardmill.cli import output
from shardmill.cli.options import Json

PROGRAM = "shardmill"
VARIABLE = "_SHARDMILL_COMPLETE"

Shell = Annotated[Literal["bash", "zsh", "fish"], typer.Argument(metavar="SHELL", help="bash, zsh or fish.")]
Install = Annotated[
    bool, typer.Option("--install", help="Add the script to the start-up files of the shell.")
]


def completion(shell: Shell, install: Install = False, as_json: Json = False) -> None:
    """Print or install the script for completion in a shell.

    Completes commands, options, and the names of definitions, triggers, steps, schedules, groups and workers,
    which are read from the API. If it does not answer within a second, no names are suggested.

    \b
    Examples:
      shardmill completion bash --install
      eval "$(shardmill completion bash)"
      shardmill completion fish > ~/.config/fish/completions/shardmill.fish
    """
    from typer import _completion_shared as scripts

    if install:
        _, path = scripts.install(shell=shell, prog_name=PROGRAM, complete_var=VARIABLE)
        if as_json:
            output.json_document({"shell": shell, "path": str(path)})
        else:
            output.line(f"completion for {shell} installed in {path}; it works in new shells")
        return
    script = scripts.get_completion_script(prog_name=PROGRAM, complete_var=VARIABLE, shell=shell)
    if as_json:
        output.json_document({"shell": shell, "script": script})
    else:
        output.line(script)
