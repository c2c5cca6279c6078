"""AWE clients of both generations run documents on the laptop cloud, from checkout to result."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support.awe.client import GENERATIONS, AweClient, Client09, Worker20
from support.awe.documents import MakeClient, completed, document, serve, task
from support.awe.submitter import SAMPLES, Submitter
from support.laptop import Laptop

FASTA = b"".join(b">read%d\nacgt\nttaa\n" % number for number in range(1, 11))


@pytest.mark.parametrize("kind", GENERATIONS, ids=lambda kind: kind.__name__)
def test_a_client_runs_every_sample_document(
    submitter: Submitter, make_client: MakeClient, kind: type[AweClient]
) -> None:
    group = f"samples-{kind.__name__}"
    client = make_client(kind, group)
    names = sorted(path.name for path in SAMPLES.iterdir())
    jobs = {}
    for name in names:
        text = submitter.fill(name, FASTA, clientgroups=group)
        jobs[name] = submitter.submit(text.replace('"clientgroups": "docker"', f'"clientgroups": "{group}"'))
    reported = serve(client, completed(submitter, *jobs.values()), 90)
    assert set(reported) == {"done"}
    found = {name: submitter.job(job) for name, job in jobs.items()}
    assert {job["state"] for job in found.values()} == {"completed"}
    assert {task["state"] for job in found.values() for task in job["tasks"]} == {"completed"}
    upper = FASTA.upper()
    expected = {
        "drisee.template": (0, "input.fna.drisee_log.txt", FASTA),
        "mgrast-short.template": (5, "j1.hits.blat", upper),
        "refdb_example.template": (3, "j1.genecalled.fna", upper),
        "simple_example.template": (2, "j1.genecalled.faa", upper),
        "test-docker.cwf": (1, "secondfile.txt", Path("/etc/hosts").read_bytes()),
    }
    assert {*expected} | {"test-minimal.cwf"} == {*names}
    for name, (number, file, content) in expected.items():
        assert submitter.output(found[name], number, file) == content, name
    attributed = found["simple_example.template"]["tasks"][0]["outputs"][0]["node"]
    assert submitter.call("GET", f"/node/{attributed}").data["attributes"] == {"made": "by preprocess"}


@pytest.mark.parametrize("kind", GENERATIONS, ids=lambda kind: kind.__name__)
def test_the_outputs_of_a_split_join_to_the_expected_content(
    submitter: Submitter, make_client: MakeClient, kind: type[AweClient]
) -> None:
    group = f"splits-{kind.__name__}"
    client = make_client(kind, group)
    source = {"in.fna": {"host": submitter.url, "node": submitter.upload(FASTA, "in.fna")}}
    text = document(
        group,
        task(
            0,
            "awe_dereplicate.pl",
            "-input=@in.fna -output=mid.fna",
            inputs=source,
            outputs={"mid.fna": {"host": submitter.url}},
            partinfo={"input": "in.fna", "index": "record"},
            totalwork=4,
        ),
        task(
            1,
            "awe_genecalling.pl",
            "-input=@mid.fna -output=end.fna",
            dependsOn=["0"],
            inputs=[{"filename": "mid.fna", "host": submitter.url, "origin": "0"}],
            outputs=[{"filename": "end.fna", "host": submitter.url}],
            partinfo={"input": "mid.fna", "index": "line"},
            maxworksize=12,
        ),
    )
    job = submitter.submit(text)
    first = [client.take() for _ in range(4)]
    assert sorted((work["rank"], work["totalwork"], work["part"]["totalindex"]) for work in first) == [
        (rank, 4, 10) for rank in (1, 2, 3, 4)
    ]
    for work in sorted(first, key=lambda each: -each["rank"]):
        assert client.run(work) == "done"
    serve(client, completed(submitter, job))
    found = submitter.job(job)
    assert [each["totalwork"] for each in found["tasks"]] == [4, 3], "30 lines, 12 at most in each"
    assert submitter.output(found, 0, "mid.fna") == FASTA.upper()
    assert submitter.output(found, 1, "end.fna") == FASTA.upper()


def test_a_mixed_fleet_serves_one_group(
    laptop: Laptop, submitter: Submitter, make_client: MakeClient
) -> None:
    group = "mixed"
    old, new = make_client(Client09, group), make_client(Worker20, group)
    node = submitter.upload(FASTA, "in.fna")
    text = document(
        group,
        task(
            0,
            "cp",
            "@in.fna out.fna",
            inputs={"in.fna": {"host": submitter.url, "node": node}},
            outputs={"out.fna": {"host": submitter.url}},
            partinfo={"input": "in.fna", "index": "record"},
            totalwork=5,
        ),
    )
    job = submitter.submit(text)
    held = [(client, client.take()) for client in (old, new)]
    worker = laptop.worker("--name", "mixed-worker", "--group", group)
    try:
        with ThreadPoolExecutor() as pool:
            ran = list(pool.map(lambda each: each[0].run(each[1]), held))
        found = submitter.wait(job, "completed", seconds=40)
    finally:
        worker.stop()
    assert ran == ["done", "done"]
    assert submitter.output(found, 0, "out.fna") == FASTA
    tasks = laptop.request(
        "GET", f"/v1/jobs/{found['info'].get('jobName', 'awe-p')}/{job}/steps/task_0/tasks"
    )
    assert len({each["worker"] for each in tasks.json()["items"]}) == 3
