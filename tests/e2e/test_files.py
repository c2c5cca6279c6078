"""Files on the laptop cloud, with real workers and programs."""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import boto3
import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.laptop import Laptop
from support.paths import PROJECT
from support.waits import run_until

TEXT_BYTES = 200_000_000
EXAMPLE = PROJECT / "examples/word-count.yaml"
COUNT = "tr -s '[:space:]' '\\n' < text | LC_ALL=C sort | uniq -c"


def define(laptop: Laptop, name: str, *steps: dict[str, Any], **more: Any) -> None:
    answer = laptop.request("PUT", f"/v1/definitions/{name}", {"steps": list(steps), **more})
    assert answer.is_success, answer.text


def submit(laptop: Laptop, name: str, **request: Any) -> None:
    answer = laptop.request("POST", "/v1/jobs", {"jobName": name, "trigger": "t"} | request)
    assert answer.status_code == 202, answer.text


def wait_for_end(laptop: Laptop, name: str, seconds: float = 60, trigger: str = "t") -> dict[str, Any]:
    def ended() -> dict[str, Any] | None:
        job: dict[str, Any] = laptop.request("GET", f"/v1/jobs/{name}/{trigger}").json()
        return job if job["state"] in ("SUCCESS", "FAILED", "SUSPENDED", "KILLED") else None

    found = run_until(ended, seconds, interval=0.1)
    assert found is not None
    return found


def files(laptop: Laptop, job: str, trigger: str = "t", **query: str) -> list[dict[str, Any]]:
    answer = laptop.request("GET", f"/v1/jobs/{job}/{trigger}/files", params=query)
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


def content(file: dict[str, Any]) -> bytes:
    data = httpx.get(file["url"]).raise_for_status().content
    assert hashlib.sha256(data).hexdigest() == file["sha256"]
    return data


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A text of 200 MB with 3,000 different words."""
    generator = random.Random(200)
    words = [f"w{number}-{'x' * generator.randint(4, 24)}" for number in range(3_000)]
    path = tmp_path_factory.mktemp("text") / "text"
    with path.open("w") as file:
        while file.tell() < TEXT_BYTES:
            lines = (" ".join(generator.choices(words, k=generator.randint(1, 9))) for _ in range(400))
            file.write(("\n".join(lines) + "\n") * 40)
    yield path
    path.unlink()


def test_the_word_count_example_splits_a_large_text_into_sixteen_shards(laptop: Laptop, text: Path) -> None:
    """Run the example with the commands from the docs."""

    def run(*words: str) -> str:
        done = laptop.run(*words, seconds=180)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("define", str(EXAMPLE))
    run("submit", "word-count", "--trigger", "book", "--file", f"text.txt={text}", "--wait")
    job = laptop.request("GET", "/v1/jobs/word-count/book").json()
    assert (job["state"], job["steps"][0]["totalWork"]) == ("SUCCESS", 16)
    found = text.with_name("words.txt")
    run("get", "word-count", "book", "words.txt", "--to", str(found))
    expected = subprocess.run(
        COUNT, shell=True, cwd=text.parent, capture_output=True, timeout=120, check=True
    )
    assert found.read_bytes() == expected.stdout
    assert run("files", "word-count", "book").count("counts-") == 16
    run("delete", "word-count", "book", "--full", "--yes")


@pytest.mark.parametrize("form", [(), ("--aws",)])
def test_a_list_fans_out_and_its_outputs_are_joined(laptop: Laptop, form: tuple[str, ...]) -> None:
    group = f"fan{len(form)}"
    assert laptop.request("PUT", f"/v1/groups/{group}", {}).is_success
    laptop.worker("--group", group, "--slots", "4", *form)
    define(
        laptop,
        group,
        {"stepName": "list", "content": """echo '[{"n": 3}, {"n": 4}, {"n": 5}]' > "$SHARDMILL_OUTPUT" """},
        {
            "stepName": "each",
            "dependentStep": "list",
            "items": "{{ steps.list.output }}",
            "content": "printf %s $(({{ item.n }} * {{ item.n }})) | tee square > $SHARDMILL_OUTPUT",
            "outputs": [{"name": "square"}],
        },
        {
            "stepName": "sum",
            "inputs": [{"name": "*/square", "origin": "each"}],
            "predata": [{"name": "first", "origin": "list", "optional": True}],
            "command": {
                "name": "sh",
                "args": '-c \'cat "$@" > all; echo "$0" >> all\' {{ steps.each.output }},x@@y @*/square',
            },
            "outputs": [{"name": "all"}],
        },
        {"stepName": "never", "dependentStep": "sum", "when": "{{ steps.list.output | length > 3 }}"},
        workerGroup=group,
    )
    submit(laptop, group)
    job = wait_for_end(laptop, group)
    assert job["state"] == "SUCCESS", json.dumps(job)[:2000]
    assert [step["state"] for step in job["steps"]] == ["SUCCESS", "SUCCESS", "SUCCESS", "SKIPPED"]
    [everything] = files(laptop, group, name="all")
    assert content(everything) == b"91625[9,16,25],x@y\n"


records = st.lists(st.tuples(st.text("ACGTN", max_size=400), st.integers(0, 60)), min_size=1, max_size=60)


@settings(max_examples=6)
@given(records=records, shards=st.integers(2, 9), number=st.uuids())
def test_the_parts_of_a_fasta_file_are_whole_records_and_join_to_the_file(
    shared_laptop: Laptop, records: list[tuple[str, int]], shards: int, number: UUID
) -> None:
    laptop = shared_laptop
    lines = [
        f">{at}\n" + "\n".join(textwrap.wrap(text, width + 1)) for at, (text, width) in enumerate(records)
    ]
    original = "\n".join(lines).encode() + b"\n"
    bucket, s3 = storage(laptop)
    s3.put_object(Bucket=bucket, Key=f"data/{number}", Body=original)
    define(
        laptop,
        "fasta",
        {
            "stepName": "part",
            "sharding": shards,
            "inputs": [{"name": "in.fa", "s3": {"bucket": bucket, "key": "data/{{ params.key }}"}}],
            "partition": {"input": "in.fa", "index": "record"},
            "content": 'test "$(head -c 1 in.fa)" = ">" && cp in.fa part-{{ shard.index }}',
            "outputs": [{"name": "part-{{ shard.index }}"}],
        },
        {
            "stepName": "join",
            "inputs": [{"name": "all", "origin": "part", "pattern": "part-*"}],
            "content": "cp all joined",
            "outputs": [{"name": "joined"}],
        },
        params={"key": ""},
    )
    submit(laptop, "fasta", trigger=str(number), params={"key": str(number)})
    job = wait_for_end(laptop, "fasta", trigger=str(number))
    assert job["state"] == "SUCCESS", job
    assert 1 <= job["steps"][0]["totalWork"] <= min(shards, len(records))
    [joined] = files(laptop, "fasta", trigger=str(number), name="joined")
    assert content(joined) == original


@pytest.mark.parametrize(
    ("content_", "output", "message"),
    [
        ("true", {"name": "out"}, "output 'out' is missing"),
        (": > out", {"name": "out", "nonzero": True}, "empty"),
        ("ln -s /etc/passwd out", {"name": "out"}, "out"),
        ("mkdir sub; ln -s /etc sub/dir", {"name": "sub/dir/passwd"}, "sub/dir"),
    ],
)
def test_an_invalid_output_fails_the_attempt(
    laptop: Laptop, content_: str, output: dict[str, Any], message: str
) -> None:
    name = "bad" + hashlib.sha256(content_.encode()).hexdigest()[:8]
    define(laptop, name, {"stepName": "a", "content": content_, "outputs": [output]})
    submit(laptop, name)
    job = wait_for_end(laptop, name)
    assert job["state"] == "FAILED"
    assert message in job["steps"][0]["notes"]
    assert files(laptop, name) == []


@pytest.mark.xdist_group("waiting")
def test_a_worker_killed_during_an_upload_leaves_no_file(laptop: Laptop) -> None:
    assert laptop.request("PUT", "/v1/groups/uploaders", {"leaseSeconds": 10}).is_success
    first = laptop.worker("--group", "uploaders")
    make = 'head -c 250000000 /dev/zero | tr "\\0" "$SHARDMILL_ATTEMPT" > big'
    define(
        laptop,
        "dying",
        {"stepName": "a", "content": make, "outputs": [{"name": "big"}]},
        workerGroup="uploaders",
    )
    submit(laptop, "dying")
    bucket, s3 = storage(laptop)
    run_until(lambda: s3.list_multipart_uploads(Bucket=bucket).get("Uploads"), 60, interval=0.02)
    first.kill()
    assert files(laptop, "dying") == []
    laptop.worker("--group", "uploaders")
    job = wait_for_end(laptop, "dying", 90)
    assert job["state"] == "SUCCESS", job
    [file] = files(laptop, "dying")
    assert (file["attempt"], file["size"]) == (2, 250_000_000)
    start = httpx.get(file["url"], headers={"range": "bytes=0-9"}).content
    assert start == b"2" * 10
    laptop.request("DELETE", "/v1/jobs/dying/t", params={"full": "true"})


def storage(laptop: Laptop) -> tuple[str, Any]:
    environ = laptop.aws_environ()
    client = boto3.client(
        "s3",
        endpoint_url=environ["AWS_ENDPOINT_URL"],
        region_name=environ["AWS_DEFAULT_REGION"],
        aws_access_key_id=environ["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=environ["AWS_SECRET_ACCESS_KEY"],
    )
    return environ["SHARDMILL_BUCKET"], client
