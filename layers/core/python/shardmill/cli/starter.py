"""The files of the project that `shardmill init` creates."""

from __future__ import annotations

import json
from pathlib import Path

DEFINITION = "job.yaml"
PROGRAM = "program.py"
README = "README.md"

_DEFINITION = """\
# A job in two steps: four tasks each count the words of their share of text.txt, then one task adds them up.
# `shardmill validate job.yaml` checks this file, `shardmill define job.yaml` saves it as a new version.
jobName: @NAME@
description: Count words in four parts and add them up

# Values that a request may replace: `shardmill submit @NAME@ --param text=other.txt`
params:
  folder: @FOLDER@ # where program.py is, on the machine of the worker
  text: text.txt

failedRetries: 2 # a task that fails is tried twice more …
failedInterval: 3 # … after three seconds each
timeoutSeconds: 60 # an attempt that takes longer is ended

steps:
  - stepName: count
    sharding: 4 # four tasks, with shard.index 0 to 3, at the same time if the workers have room
    type: shell
    # {{ … }} is filled in for each task; each value is quoted and remains one word.
    content: >-
      python3 {{ params.folder }}/program.py count
      --text {{ params.folder }}/{{ params.text }} --shard {{ shard.index }} --of {{ shard.total }}

  - stepName: report
    dependentStep: count # starts when all tasks of `count` have succeeded
    type: shell
    # The output of a sharded step is a list with the value of each task.
    content: python3 {{ params.folder }}/program.py report --counts {{ steps.count.output | json }}
"""

_PROGRAM = '''\
"""The program that the tasks of @NAME@ run. Anything that runs on the worker's machine works just as well."""

import argparse
import json
import os
import pathlib


def count(text: str, shard: int, of: int) -> int:
    """Count the words in every `of`-th line, from line `shard` on."""
    lines = pathlib.Path(text).read_text().splitlines()
    return sum(len(line.split()) for line in lines[shard::of])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("step", choices=["count", "report"])
    parser.add_argument("--text")
    parser.add_argument("--shard", type=int)
    parser.add_argument("--of", type=int)
    parser.add_argument("--counts", type=json.loads)
    given = parser.parse_args()
    if given.step == "count":
        words = count(given.text, given.shard, given.of)
        print(f"part {given.shard} of {given.of}: {words} words")  # in `shardmill logs`
        # The content of this file is the output of the task, for later steps.
        pathlib.Path(os.environ["SHARDMILL_OUTPUT"]).write_text(json.dumps(words))
    else:
        print(f"{sum(given.counts)} words in {len(given.counts)} parts")


if __name__ == "__main__":
    main()
'''

_TEXT = """\
Shardmill splits a step into tasks
and gives each task a number.
A worker takes tasks from a queue,
runs a program for each of them
and reports how it ended.
What fails is tried again.
When all tasks have ended,
the next step begins.
"""

_README = """\
# @NAME@

A job for Shardmill: [`job.yaml`](job.yaml) defines it, [`program.py`](program.py) does the work.

Start Shardmill on this machine, in another terminal: `shardmill dev`. Then, in this folder:

```sh
@COMMANDS@
```

Next: change `sharding`, make a task fail, and see what `shardmill why` and `shardmill rerun` do.
If something does not work, run `shardmill doctor`.
"""

_COMMANDS = {
    "shardmill validate job.yaml": "check the definition; needs no server",
    "shardmill define job.yaml": "save it",
    "shardmill submit @NAME@ first --wait": "run it, and show its progress",
    "shardmill logs @NAME@ first report 0": "what the last task printed",
    "shardmill open @NAME@ first --print": "the address of the job in the dashboard",
    "shardmill cost @NAME@ first": "what this run would have cost on AWS",
}


def starter_files(name: str, folder: Path) -> dict[str, str]:
    """The files of a project, by their names in the folder."""

    def filled(text: str) -> str:
        return text.replace("@NAME@", name).replace("@FOLDER@", json.dumps(str(folder)))

    commands = {filled(command): what for command, what in _COMMANDS.items()}
    width = max(map(len, commands))
    lines = "\n".join(f"{command:<{width}}  # {what}" for command, what in commands.items())
    return {
        DEFINITION: filled(_DEFINITION),
        PROGRAM: filled(_PROGRAM),
        "text.txt": _TEXT,
        README: filled(_README).replace("@COMMANDS@", lines),
    }
