"""dependencies, and how job shows them."""

import json

from support.fakes.api import FakeApi, Run, job, output_of, page, parent_run, step

JOB = "/v1/jobs/report/t1"

RUNS = [
    parent_run(preTrigger="20260105", preState="SUCCESS", dataTime="2026-01-05T00:00:00Z"),
    parent_run("rates", dataTime="2026-01-05T04:00:00Z", strategy="last:2"),
    parent_run("rates", preTrigger="x", preState="FAILED", dataTime="2026-01-05T05:00:00Z"),
    parent_run("mail", strategy="any"),
]


def cells(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("  ") if cell] for line in text.splitlines()]


def test_dependencies_are_listed(api: FakeApi, run: Run) -> None:
    api.on("GET", f"{JOB}/dependencies", page(*RUNS))
    assert cells(output_of(run("dependencies", "report", "t1"))) == [
        ["PARENT", "TRIGGER", "DATA TIME", "STATE", "STRATEGY"],
        ["ledger", "20260105", "2026-01-05T00:00:00Z", "SUCCESS", "all"],
        ["rates", "-", "2026-01-05T04:00:00Z", "not submitted", "last:2"],
        ["rates", "x", "2026-01-05T05:00:00Z", "FAILED", "all"],
        ["mail", "-", "-", "not submitted", "any"],
    ]
    found = json.loads(output_of(run("dependencies", "report", "t1", "--json")))
    assert [each["preStatus"] for each in found] == [1, 0, 0, 0]


def test_waiting_job_shows_unmet_dependencies_first(api: FakeApi, run: Run) -> None:
    sentence = "waits for rates of 2026-01-05T04:00:00Z"
    api.on("GET", JOB, job("WAITING", waitingFor=[sentence], notes=sentence))
    api.on("GET", f"{JOB}/dependencies", page(*RUNS))
    facts, _, table = output_of(run("job", "report", "t1")).partition("\n\n")
    assert facts.splitlines()[-1] == "  waits for  rates of 2026-01-05T04:00:00Z"
    assert "notes" not in facts
    assert [row[0] for row in cells(table)] == ["PARENT", "rates", "rates", "mail", "ledger"]


def test_long_list_of_dependencies_is_cut(api: FakeApi, run: Run) -> None:
    api.on("GET", JOB, job("WAITING"))
    api.on("GET", f"{JOB}/dependencies", page(*[parent_run()] * 50))
    lines = output_of(run("job", "report", "t1")).splitlines()
    assert sum(line.startswith("ledger") for line in lines) == 20
    assert lines[-1] == "… and 30 more; to list all, run: shardmill dependencies report t1"


def test_dependencies_are_read_for_waiting_jobs_only(api: FakeApi, run: Run) -> None:
    api.on("GET", JOB, job("RUNNING", step()))
    output_of(run("job", "report", "t1"))
    api.on("GET", JOB, job("WAITING"))
    output_of(run("job", "report", "t1", "--json"))
    assert api.request_lines == [f"GET {JOB}"] * 2


def test_job_waiting_for_its_schedule_has_no_list(api: FakeApi, run: Run) -> None:
    api.on("GET", JOB, job("WAITING", waitingFor=["waits for the previous Job of the schedule s to end"]))
    api.on("GET", f"{JOB}/dependencies", page())
    shown = output_of(run("job", "report", "t1"))
    assert shown.endswith("  waits for  the previous Job of the schedule s to end\n")


def test_job_is_shown_if_its_dependencies_cannot_be_read(api: FakeApi, run: Run) -> None:
    api.on("GET", JOB, job("WAITING"))
    result = run("job", "report", "t1")
    assert (result.exit_code, result.stdout.splitlines()[0]) == (0, "report t1 WAITING")
    assert "cannot read the dependencies of the job: there is no" in result.stderr
