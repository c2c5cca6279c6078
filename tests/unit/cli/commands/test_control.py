"""force and delete."""

import json

from support.fakes.api import (
    FakeApi,
    Reply,
    Run,
    job,
    output_of,
)

JOB = "/v1/jobs/report/t1"

WHO = ["report", "t1"]


def test_force_sends_the_state_and_its_target(api: FakeApi, run: Run) -> None:
    api.on("POST", f"{JOB}:force", job(state="SUCCESS"))
    assert output_of(run("force", *WHO, "success", "--reason", "seen")) == "report t1 SUCCESS\n"
    assert api.requests[-1].document == {"state": "SUCCESS", "reason": "seen"}
    output_of(run("force", *WHO, "FAILED", "--step", "main", "--index", "3"))
    assert api.requests[-1].document == {"state": "FAILED", "stepName": "main", "index": 3}
    assert run("force", *WHO, "KILLED").exit_code == 2
    assert run("force", *WHO, "SUCCESS", "--index", "3").exit_code == 2


def test_delete_confirms_the_deletion(api: FakeApi, run: Run) -> None:
    api.on("DELETE", JOB, Reply(status=204))
    for more in ([], ["--full"]):
        done = run("delete", *WHO, *more)
        assert (done.exit_code, done.stdout, done.stderr) == (0, "", "shardmill: report t1 deleted\n")
    printed = json.loads(output_of(run("delete", *WHO, "--json")))
    assert printed == {"jobName": "report", "trigger": "t1", "deleted": True}
    assert [each.query for each in api.requests] == [{}, {"full": "true"}, {}]
