"""Routes that combine what the dashboard shows: the grid of tasks, recent runs and the overview."""

from shardmill.engine.views import task_grid
from shardmill.web import assets
from support.aws_rules.faults import Faults
from support.scenarios.access import Callers
from support.scenarios.job_runner import JobRunner, fail_shards

READS = ("dynamodb.GetItem", "dynamodb.BatchGetItem", "dynamodb.Query")
GRID = "/v1/jobs/orders/t1/steps/a/tasks:grid"


def reads(faults: Faults) -> int:
    return sum(faults.meter.calls[name] for name in READS)


def test_the_grid_has_every_task_in_columns(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "shardConf": {"shard": 75, "startShardId": 5}})
    runner.submit()
    runner.run(fail_shards(9))
    grid = runner.cloud.http("GET", GRID).json
    tasks = runner.step_tasks("a")
    assert grid["total"] == len(tasks) == len(grid["states"]) == 70
    assert (grid["start"], grid["firstIndex"]) == (0, 5)
    letters = {"S": "SUCCESS", "F": "FAILED"}
    assert [letters[letter] for letter in grid["states"]] == [task["state"] for task in tasks]
    assert grid["attempts"] == [task["attempt"] for task in tasks]
    assert [grid["workers"][at]["id"] for at in grid["workerOf"]] == [task["worker"] for task in tasks]
    assert {worker["name"] for worker in grid["workers"]} == {"manual"}
    assert all(start > 0 for start in grid["starts"])


def test_tasks_that_have_not_started_have_no_times_and_no_worker(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "sharding": 3})
    runner.submit()
    runner.take(1)
    grid = runner.cloud.http("GET", GRID).json
    assert sorted(grid["states"]) == ["Q", "Q", "R"]
    waiting = [at for at, letter in enumerate(grid["states"]) if letter == "Q"]
    assert [(grid["starts"][at], grid["workerOf"][at]) for at in waiting] == [(0, -1), (0, -1)]


def test_a_large_grid_is_read_in_parts_with_a_bounded_number_of_reads(
    runner: JobRunner, faults: Faults
) -> None:
    runner.define({"stepName": "a", "sharding": 10_050})
    runner.submit()
    runner.cloud.run_until(lambda: runner.cloud.http("GET", GRID).json["total"] == 10_050)
    faults.meter.reset()
    first = runner.cloud.http("GET", GRID).json
    assert len(first["states"]) == task_grid.MAX_TASKS
    assert reads(faults) <= 10
    rest = runner.cloud.http("GET", f"{GRID}?from={task_grid.MAX_TASKS}").json
    assert (rest["start"], len(rest["states"])) == (10_000, 50)
    assert runner.cloud.http("GET", f"{GRID}?from=20000").json["states"] == ""


def test_runs_have_the_states_of_steps_also_of_older_versions(runner: JobRunner) -> None:
    runner.define({"stepName": "a"}, {"stepName": "b", "dependentStep": "a"})
    runner.submit("t1")
    runner.run(fail_shards(0, step="a"))
    runner.define({"stepName": "a"}, {"stepName": "c", "dependentStep": "a"})
    runner.submit("t2")
    runner.run(trigger="t2")
    answer = runner.cloud.http("GET", "/v1/definitions/orders/runs").json
    assert answer["steps"] == ["a", "c", "b"]
    assert [(item["job"]["trigger"], item["states"]) for item in answer["runs"]] == [
        ("t2", ["SUCCESS", "SUCCESS", None]),
        ("t1", ["FAILED", None, "SKIPPED"]),
    ]
    one = runner.cloud.http("GET", "/v1/definitions/orders/runs?limit=1").json
    assert [item["job"]["trigger"] for item in one["runs"]] == ["t2"]
    before = runner.cloud.http("GET", f"/v1/definitions/orders/runs?limit=1&cursor={one['cursor']}").json
    assert ([item["job"]["trigger"] for item in before["runs"]], before["cursor"]) == (["t1"], None)
    assert runner.cloud.http("GET", "/v1/definitions/orders/runs?cursor=x").status == 422
    assert runner.cloud.http("GET", "/v1/definitions/missing/runs").status == 404


def test_the_overview_has_jobs_groups_and_coming_firings(runner: JobRunner) -> None:
    runner.define({"stepName": "a"})
    runner.submit("t1")
    runner.run(fail_shards(0))
    runner.submit("t2")
    runner.take(1)
    runner.cloud.http("PUT", "/v1/schedules/orders/daily", {"cron": "0 6 * * *"})
    answer = runner.cloud.http("GET", "/v1/now").json
    assert [job["trigger"] for job in answer["live"]["RUNNING"]["items"]] == ["t2"]
    assert [job["trigger"] for job in answer["failed"]] == ["t1"]
    assert [job["trigger"] for job in answer["ended"]] == ["t1"]
    groups = {group["name"]: group for group in answer["groups"]}
    assert (groups["default"]["online"], groups["default"]["slots"]) == (1, 1)
    assert [schedule["scheduleId"] for schedule in answer["schedules"]] == ["daily"]


def test_the_reads_of_the_overview_do_not_grow_with_the_number_of_jobs(
    runner: JobRunner, faults: Faults
) -> None:
    runner.define({"stepName": "a"})
    for trigger in range(12):
        runner.submit(f"t{trigger}")
    runner.cloud.http("GET", "/v1/now")
    faults.meter.reset()
    runner.cloud.http("GET", "/v1/now")
    assert reads(faults) <= 80, "each list of Jobs is spread over partitions"


def test_the_cost_counts_what_has_run_so_far(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "sharding": 4}, {"stepName": "b", "dependentStep": "a", "sharding": 100})
    runner.submit()
    runner.take(1)
    early = runner.cloud.http("GET", "/v1/jobs/orders/t1:cost").json
    runner.worker.report(runner.leased, "success")
    runner.run()
    late = runner.cloud.http("GET", "/v1/jobs/orders/t1:cost").json
    assert 0 < early["usd"] < late["usd"]
    assert abs(sum(item["usd"] for item in late["items"]) - late["usd"]) < 1e-9


def test_the_page_and_its_files_are_served_compressed(runner: JobRunner) -> None:
    page = runner.cloud.http("GET", "/", token=None, headers={"accept-encoding": "gzip, br"})
    assert (page.status, page.text[:15]) == (200, "<!doctype html>")
    script = f"/assets/{assets.digest()}/core/main.js"
    found = runner.cloud.http("GET", script, token=None, headers={"accept-encoding": "gzip"})
    assert found.text == (assets.STATIC / "core/main.js").read_text()


def test_the_attempts_of_tasks_that_failed_are_read_in_one_request(runner: JobRunner, faults: Faults) -> None:
    runner.define({"stepName": "a", "sharding": 4, "failedRetries": 1, "failedInterval": 0})
    runner.submit()
    runner.run(fail_shards(1, 3, outcome="failed"))
    path = "/v1/jobs/orders/t1/steps/a/tasks:attempts"
    items = runner.cloud.http("GET", f"{path}?index=1&index=3").json["items"]
    assert [(each["index"], each["attempt"], each["reason"]) for each in items] == [
        (index, attempt, "failed") for index in (1, 3) for attempt in (1, 2)
    ]
    assert all(each["startTime"] <= each["endTime"] for each in items)
    faults.meter.reset()
    runner.cloud.http("GET", f"{path}?index=1&index=3")
    assert reads(faults) <= 6
    assert runner.cloud.http("GET", path).status == 422
    assert runner.cloud.http("GET", f"{path}?index=4").status == 404
    many = "&".join(f"index={index}" for index in range(51))
    assert runner.cloud.http("GET", f"{path}?{many}").status == 422


def test_the_overview_counts_dead_letters_for_those_who_may_see_them(runner: JobRunner) -> None:
    runner.mill.queues.send_texts(runner.mill.settings.dead_queue, ["not a task"])
    answer = runner.cloud.http("GET", "/v1/now").json
    assert answer["deadLetters"] == {"stored": 0, "new": True}
    runner.cloud.http("GET", "/v1/dead-letters")
    assert runner.cloud.http("GET", "/v1/now").json["deadLetters"] == {"stored": 1, "new": False}
    reader = Callers(runner.cloud).with_scopes("read")
    assert reader("GET", "/v1/now").json["deadLetters"] is None


def test_the_values_of_tasks_are_read_a_block_at_a_time(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "sharding": 70})
    runner.submit()
    runner.run(fail_shards(3))
    path = "/v1/jobs/orders/t1/steps/a/tasks:values"
    assert runner.cloud.http("GET", path).json == {"total": 70, "start": 0, "items": []}
    assert runner.cloud.http("GET", f"{path}?from=69").json["start"] == 64
    assert runner.cloud.http("GET", f"{path}?from=500").json["start"] == 64
