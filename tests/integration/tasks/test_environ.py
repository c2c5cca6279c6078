"""The environment of a command in a lease."""

from support.scenarios.file_worker import FileWorker
from support.scenarios.job_runner import JobRunner


def test_environment_templates_are_rendered_for_each_task(runner: JobRunner) -> None:
    environ = {
        "public": {
            "PART": "{{ shard.index }} of {{ shard.total }}",
            "DATE": "{{ params.date }}",
            "X": "} }}",
        },
        "private": {"KEY": "{{ params.key }}/{{ job.trigger }}"},
    }
    runner.define(
        {"stepName": "a", "sharding": 2, "command": {"name": "./x", "environ": environ}},
        params={"date": "$(date)", "key": 7},
    )
    runner.submit()
    leases = sorted(runner.take(2), key=lambda lease: lease.sharding.index)
    assert [lease.environ["PART"] for lease in leases] == ["0 of 2", "1 of 2"]
    for lease in leases:
        assert {name: lease.environ[name] for name in ("DATE", "X")} == {"DATE": "$(date)", "X": "} }}"}
        assert FileWorker(runner).ask(lease, prepare=True)["prepared"]["environ"] == {"KEY": "7/t1"}
    assert runner.step("a")["command"]["environ"]["private"] == {"KEY": "********"}
