"""Write the files for `sam local invoke`, to run functions of the build against a running `shardmill dev`.

`sam` passes a variable of its environment file only if the template declares it. So a copy of the built
template, which declares the endpoint and the region, goes beside the environment file. Its parameter
Architecture defaults to the layer's architecture, because `sam` chooses the container by it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from scripts.built_functions import MACHINES, machine_of

from shardmill.client.dev_session import find_session
from shardmill.local.deploy import STACK, Endpoint
from shardmill.local.environment import REGION
from shardmill.local.sam_template import load_emulated_template

BUILD = Path(__file__).parents[1] / ".aws-sam" / "build"
TEMPLATE, ENVIRONMENT = "local.json", "local-env.json"
REGIONS = dict.fromkeys(("AWS_REGION", "AWS_DEFAULT_REGION"), REGION)
"""Of the laptop cloud; `sam` would pass the user's own."""
LAYER = "CoreLayer"
Variables = Callable[[str], dict[str, str]]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="host.docker.internal", help="this machine, seen from a container")
    host = parser.parse_args(arguments).host
    session = find_session()
    if session is None:
        sys.stderr.write("error: `shardmill dev` is not running; start it in another terminal\n")
        return 1
    if not (BUILD / "template.yaml").exists():
        sys.stderr.write("error: nothing is built; run `make sam` first\n")
        return 1
    client = Endpoint(session.aws_endpoint).client("lambda")

    def variables(function: str) -> dict[str, str]:
        found = client.get_function_configuration(FunctionName=function)
        return dict(found.get("Environment", {}).get("Variables", {}))

    port = urlsplit(session.aws_endpoint).port
    write(BUILD, f"http://{host}:{port}", STACK, variables)
    shown = BUILD.relative_to(Path.cwd()) if BUILD.is_relative_to(Path.cwd()) else BUILD
    sys.stdout.write(
        f"sam local invoke SubmitFunction --template {shown / TEMPLATE} --env-vars {shown / ENVIRONMENT} "
        "--event events/submit.json\n"
    )
    return 0


def write(build: Path, endpoint: str, stack: str, variables: Variables) -> None:
    """Write the template and the environment of every function; `variables` reads those of a deployed one."""
    template = load_emulated_template(build / "template.yaml")
    declared = template["Globals"]["Function"]["Environment"]["Variables"]
    local: dict[str, Any] = {**template, "Globals": json.loads(json.dumps(template["Globals"]))}
    ours = {"AWS_ENDPOINT_URL": endpoint, **REGIONS}
    local["Globals"]["Function"]["Environment"]["Variables"] = {**declared, **dict.fromkeys(ours, "")}
    local["Parameters"] = {
        **template["Parameters"],
        "Architecture": {**template["Parameters"]["Architecture"], "Default": _architecture(build)},
    }
    environment = {
        name: {**variables(_physical(resource, stack)), **ours}
        for name, resource in template["Resources"].items()
        if resource["Type"] == "AWS::Serverless::Function"
    }
    (build / TEMPLATE).write_text(json.dumps(local, indent=1))
    (build / ENVIRONMENT).write_text(json.dumps(environment, indent=1))


def _architecture(build: Path) -> str:
    """The architecture that the layer was built for, by one of its files with native code."""
    machine = machine_of(next((build / LAYER).rglob("*.so")))
    return next(name for name, number in MACHINES.items() if number == machine)


def _physical(resource: dict[str, Any], stack: str) -> str:
    return str(resource["Properties"]["FunctionName"]["Fn::Sub"]).replace("${AWS::StackName}", stack)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
