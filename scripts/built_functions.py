"""Check the result of `sam build`: native code has the functions' architecture, and each handler can be
imported.

Each handler is imported in its own process, as on Lambda: from the function's folder, the layer and the
runtime's boto3, and from nowhere else. The layer for this is a second one, for the machine that builds.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from shardmill.local.sam_template import load_template

MACHINES = {"x86_64": 62, "arm64": 183}
"""The e_machine of ELF files."""
MAX_UNZIPPED_BYTES = 250 * 1024 * 1024
RUNTIME = ("boto3", "botocore", "jmespath", "python-dateutil", "s3transfer", "six", "urllib3")
"""The packages that the Lambda runtime for Python contains."""
START = """
import importlib, sys
code, layer, runtime, handler = sys.argv[1:]
sys.path[:0] = [code, layer, runtime]
module, name = handler.rsplit(".", 1)
function = getattr(importlib.import_module(module), name)
assert callable(function), handler
origin = sys.modules["shardmill.aws.observability"].__file__
assert origin.startswith(layer), f"the package comes from {origin}, not from the layer"
"""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--template", type=Path, required=True, help="the template that `sam build` wrote")
    parser.add_argument("--architecture", choices=MACHINES, required=True)
    parser.add_argument("--python", required=True, help="the interpreter that imports the handlers")
    parser.add_argument("--layer", type=Path, required=True, help="the layer for that interpreter")
    options = parser.parse_args(arguments)
    resources = load_template(options.template)["Resources"]
    found = [
        *layer_faults(options.template.parent, resources, options.architecture),
        *import_faults(options.template.parent, resources, options.layer, options.python),
    ]
    for fault in found:
        sys.stderr.write(f"{fault}\n")
    return 1 if found else 0


def layer_faults(folder: Path, resources: dict[str, Any], architecture: str) -> Iterator[str]:
    """Native code of another machine, and a layer that is too large."""
    layers = [each for each in resources.values() if each["Type"] == "AWS::Serverless::LayerVersion"]
    if not layers:
        yield "the built template has no layer"
    for layer in layers:
        built = folder / layer["Properties"]["ContentUri"]
        files = [file for file in built.rglob("*") if file.is_file()]
        for file in files:
            if file.suffix == ".so" and machine_of(file) != MACHINES[architecture]:
                yield f"{file.relative_to(folder)} is not built for {architecture}"
        size = sum(file.stat().st_size for file in files)
        if size > MAX_UNZIPPED_BYTES:
            yield f"the layer has {size} bytes; Lambda accepts {MAX_UNZIPPED_BYTES} with the function"


def machine_of(file: Path) -> int:
    """The machine that a file with native code is built for."""
    with file.open("rb") as elf:
        return int.from_bytes(elf.read(20)[18:20], "little")


def import_faults(folder: Path, resources: dict[str, Any], layer: Path, python: str) -> Iterator[str]:
    """Handlers that cannot be imported."""
    functions = {k: v for k, v in resources.items() if v["Type"] == "AWS::Serverless::Function"}
    if not functions:
        yield "the built template has no functions"
    shared = load_template(folder / "template.yaml").get("Globals", {}).get("Function", {})
    with tempfile.TemporaryDirectory() as runtime:
        _link_runtime(Path(runtime))
        for name, function in functions.items():
            properties = {**shared, **function["Properties"]}
            code = (folder / properties["CodeUri"]).resolve()
            command = [python, "-I", "-S", "-c", START, str(code), str(layer.resolve() / "python"), runtime]
            environment = _environment(shared, function["Properties"])
            done = subprocess.run(
                [*command, properties["Handler"]],
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                yield f"{name}: {properties['Handler']} cannot be imported:\n{done.stderr}"


def _environment(*properties: dict[str, Any]) -> dict[str, str]:
    """The function's variables; those that CloudFormation fills in are placeholders here."""
    found = {"AWS_REGION": "us-east-1", "PATH": os.environ["PATH"]}
    for each in properties:
        for name, value in each.get("Environment", {}).get("Variables", {}).items():
            found[name] = value if isinstance(value, str) else "test"
    return found


def _link_runtime(folder: Path) -> None:
    """Make the packages of the Lambda runtime importable, and no others of this environment."""
    for package in RUNTIME:
        for file in distribution(package).files or []:
            top = file.parts[0]
            if (
                not top.endswith(".dist-info")
                and top not in ("..", "__pycache__")
                and not (folder / top).exists()
            ):
                (folder / top).symlink_to(Path(str(distribution(package).locate_file(top))))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
