"""How long a handler takes to import, over just the libraries it needs."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.result import Result

ROOT = Path(__file__).parents[2]
RUNS = 9
LIBRARIES = {
    "api": "boto3, pydantic, aws_lambda_powertools.event_handler, aws_lambda_powertools.logging, "
    "aws_lambda_powertools.metrics, aws_lambda_powertools.event_handler.openapi.params, "
    "aws_lambda_powertools.event_handler.middlewares.openapi_validation, boto3.dynamodb.types",
    "orchestrate": "boto3, pydantic, aws_lambda_powertools.logging, aws_lambda_powertools.metrics, "
    "boto3.dynamodb.types",
    "tick": "boto3, pydantic, aws_lambda_powertools.logging, aws_lambda_powertools.metrics, "
    "aws_lambda_powertools.utilities.parser.models, boto3.dynamodb.types",
}


def seconds(code: str, folder: Path) -> float:
    """The median time that a fresh interpreter takes to run an import, itself not counted."""
    script = f"import time; t = time.perf_counter(); {code}; print(time.perf_counter() - t)"
    environ = {**os.environ, "SHARDMILL_STACK": "bench", "PYTHONDONTWRITEBYTECODE": ""}
    times = []
    for _ in range(RUNS):
        run = subprocess.run(
            [sys.executable, "-c", script],
            cwd=folder,
            env=environ,
            capture_output=True,
            text=True,
            check=True,
        )
        times.append(float(run.stdout.splitlines()[-1]))
    return statistics.median(times[1:])


def measure(_: Path) -> Iterator[Result]:
    for name, libraries in LIBRARIES.items():
        alone = seconds(f"import {libraries}", ROOT)
        handler = seconds("import app", ROOT / "functions" / name)
        yield Result(f"import of functions/{name}", handler, "s")
        yield Result(f"import of functions/{name} over its libraries", handler / alone, "x", at_most=1.3)
