"""Import time of each handler, relative to that of its libraries."""

from __future__ import annotations

import compileall
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.result import Result
from support.paths import PROJECT

RUNS = 9
COMMON = (
    "import boto3, boto3.dynamodb.types; "
    "from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, computed_field; "
    "from pydantic.alias_generators import to_camel; "
    "from aws_lambda_powertools import Logger, Metrics; "
    "from aws_lambda_powertools.utilities.typing import LambdaContext; "
)
PARSER = "from aws_lambda_powertools.utilities.parser import event_parser, models; "
LIBRARIES = {
    "api": COMMON
    + "from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response; "
    + "from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter; "
    + "from aws_lambda_powertools.event_handler.openapi.params import Body, Path, Query; "
    + "APIGatewayHttpResolver(enable_validation=True)",
    "orchestrate": COMMON,
    "tick": COMMON + PARSER + "models.EventBridgeModel",
}


def seconds(code: str, folder: Path) -> float:
    """Time an import in a new interpreter, without the start of the interpreter."""
    script = f"import time; t = time.perf_counter(); {code}; print(time.perf_counter() - t)"
    environ = {**os.environ, "SHARDMILL_STACK": "bench"}
    run = subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return float(run.stdout.splitlines()[-1])


def measure(_: Path) -> Iterator[Result]:
    """Compile our code first, as the libraries are and as the layer is on AWS."""
    for folder in ("layers/core/python/shardmill", "functions"):
        compileall.compile_dir(PROJECT / folder, quiet=1)
    for name, libraries in LIBRARIES.items():
        pairs = [
            (seconds(libraries.rstrip("; "), PROJECT), seconds("import app", PROJECT / "functions" / name))
            for _ in range(RUNS)
        ]
        alone, handler = (min(times) for times in zip(*pairs, strict=True))  # the minimum has the least noise
        yield Result(f"import of functions/{name}", handler, "s")
        yield Result(
            f"import of functions/{name} relative to its libraries", handler / alone, "x", at_most=1.3
        )
        if name == "api":
            yield from _areas(alone)
        if name == "orchestrate":
            yield _planning(alone)


def _areas(libraries: float) -> Iterator[Result]:
    """Import time that the first request adds on a cold start: the routes of its area."""
    from shardmill.api.routes import ROUTES

    for area in sorted({route.module for route in ROUTES if not route.awe}):
        code = f"import app; from shardmill.api.app import app_of_module; app_of_module('{area}')"
        times = [seconds(code, PROJECT / "functions" / "api") for _ in range(RUNS)]
        took = min(times) / libraries
        yield Result(f"import of functions/api and its {area}, relative to its libraries", took, "x")


def _planning(libraries: float) -> Result:
    """Import time of a cold start that plans a Job. The other actions need no models."""
    code = "import app, shardmill.engine.jobs.plan"
    times = [seconds(code, PROJECT / "functions" / "orchestrate") for _ in range(RUNS)]
    took = min(times) / libraries
    return Result(
        "import of functions/orchestrate and its plan, relative to its libraries", took, "x", at_most=1.3
    )
