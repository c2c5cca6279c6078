"""`shardmill demo`: run an example job in a temporary environment and estimate its cost on AWS."""

from __future__ import annotations

import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from shardmill.cli import output
from shardmill.cli.exits import INTERRUPTED, OTHER, report_error
from shardmill.cli.render.cost import show_cost
from shardmill.cli.render.job import exit_code, show_job
from shardmill.cli.render.progress import job_progress
from shardmill.client.client import Client
from shardmill.client.errors import ShardmillError
from shardmill.engine.views.cost import cost_of_steps
from shardmill.local.dev import ROOT, Laptop, StopRequested, laptop, stop_on_signals
from shardmill.local.errors import CloudFailed, Refused
from shardmill.model.cost.prices import Cost
from shardmill.model.job import Job
from shardmill.model.states import JobState

EXAMPLE = ROOT / "examples" / "balance-report.yaml"
RESULT_STEP = "merge_files"
RESULT_LINES = 10
TIMEOUT_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Outcome:
    job: Job
    seconds: float
    result: list[str]
    cost: Cost
    code: int


def run_demo(as_json: bool) -> int:
    """Run the demo; return 0 only if the job succeeds. Its folder is kept if the environment fails."""
    folder = Path(tempfile.mkdtemp(prefix="shardmill-demo-"))
    try:
        with stop_on_signals(), laptop(None, folder / "state", workers=1, publish=False) as ready:
            outcome = _run(ready, folder)
    except StopRequested:
        code = INTERRUPTED
    except (CloudFailed, Refused) as failure:
        output.message(str(failure))
        return OTHER
    except ShardmillError as error:
        code = report_error(error)
    else:
        _show(outcome, as_json)
        code = outcome.code
    shutil.rmtree(folder, ignore_errors=True)
    return code


def _run(ready: Laptop, folder: Path) -> Outcome:
    with Client(ready.session.url, ready.session.token) as client:
        defined = client.define(EXAMPLE)
        start = time.monotonic()
        submitted = client.submit(defined.job_name, params={"folder": str(folder)})
        with job_progress(client) as show:

            def update(job: Job) -> None:
                ready.supervise()
                show(job)

            job = client.wait(submitted.job_name, submitted.trigger, TIMEOUT_SECONDS, update)
        seconds = time.monotonic() - start
        cost = cost_of_steps(job.steps, {}, client.calls)
        code = exit_code(client, job)
        result = _result(client, job) if job.state is JobState.SUCCESS else []
    return Outcome(job, seconds, result, cost, code)


def _result(client: Client, job: Job) -> list[str]:
    text = "".join(client.logs(job.job_name, job.trigger, RESULT_STEP, 0))
    return text.splitlines()[-RESULT_LINES:]


def _show(outcome: Outcome, as_json: bool) -> None:
    if as_json:
        output.json_document(
            {
                "job": outcome.job.model_dump(mode="json"),
                "seconds": round(outcome.seconds, 3),
                "result": outcome.result,
                "cost": outcome.cost.model_dump(mode="json"),
            }
        )
        return
    show_job(outcome.job)
    if outcome.result:
        output.line(f"\nResult (last lines of {RESULT_STEP}):")
        for text in outcome.result:
            output.line(f"  {output.printable(text)}")
    output.line(f"\nDuration: {outcome.seconds:.1f} s from submission to end.")
    show_cost(outcome.cost)
