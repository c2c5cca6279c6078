"""One input split among the tasks of a step: by its records, with few reads, or told why it cannot be."""

from __future__ import annotations

import gzip
from typing import Any

import pytest

from support.faults import Faults
from support.play import Play
from support.porter import Porter

LINES = b"".join(b"line %d of a text\n" % number for number in range(500)) + b"the last, without an end"
FASTA = b"".join(b">read %d\n%s\n" % (number, b"ACGT" * (number % 40)) for number in range(200))


@pytest.fixture
def porter(play: Play) -> Porter:
    return Porter(play)


def define(
    play: Play, porter: Porter, data: bytes | None, partition: Any, name: str = "in.txt", **more: Any
) -> None:
    if data is not None:
        porter.s3.put_object(Bucket=porter.bucket, Key=f"data/{name}", Body=data)
    source = {"name": name, "s3": {"bucket": porter.bucket, "key": f"data/{name}"}}
    step = {"stepName": "a", "content": "x", "inputs": [source], "partition": {"input": name, **partition}}
    play.define({**step, **more})
    play.submit()


def parts(play: Play, porter: Porter, name: str = "in.txt") -> list[bytes]:
    """What each task of the step reads, in their order."""
    play.cloud.run_until(lambda: play.states().get("a") in ("READY", "FAILED"), 10)
    leases = play.take(play.step("a")["totalWork"])
    found = {lease.sharding.index: porter.fetch(lease)[name] for lease in leases}
    play.hands.report(leases)
    return [found[index] for index in sorted(found)]


@pytest.mark.parametrize(
    ("data", "partition", "sharding", "start", "end"),
    [
        (LINES, {"index": "line"}, 7, b"line", b"\n"),
        (LINES, {"index": "bytes"}, 7, b"", b""),
        (FASTA, {"index": "record"}, 5, b">read", b"\n"),
        (LINES, {"index": "record", "options": "separator=line 7 of a text"}, 3, b"line", b"\n"),
        (b"one line only", {"index": "line"}, 4, b"one", b"only"),
        (b"", {"index": "line"}, 4, b"", b""),
    ],
)
def test_the_parts_are_whole_records_and_make_the_input(
    play: Play, porter: Porter, data: bytes, partition: Any, sharding: int, start: bytes, end: bytes
) -> None:
    define(play, porter, data, partition, sharding=sharding)
    found = parts(play, porter)
    assert b"".join(found) == data
    assert 1 <= len(found) <= sharding
    assert all(part.startswith(start) for part in found)
    assert all(part.endswith(end) for part in found[:-1])
    assert play.run()["state"] == "SUCCESS"


def test_the_size_of_parts_says_how_many_there_are(play: Play, porter: Porter) -> None:
    data = b"0123456789abcde\n" * (200_000)
    define(play, porter, data, {"index": "line", "maxPartSizeMb": 1})
    found = parts(play, porter)
    assert len(found) == 4
    assert b"".join(found) == data


def test_few_small_reads_find_the_cuts_and_each_task_reads_its_part_only(
    play: Play, porter: Porter, faults: Faults
) -> None:
    data = LINES * 100
    faults.meter.calls.clear()
    define(play, porter, data, {"index": "line"}, sharding=16)
    play.cloud.run_until(lambda: play.states().get("a") == "READY", 10)
    assert faults.meter.calls["s3.GetObject"] <= 16 + 1
    [lease] = play.take(1)
    [fetch] = porter.ask(lease, prepare=True)["prepared"]["files"]
    assert fetch["end"] - fetch["first"] < len(data) / 8
    assert fetch["etag"]


def test_an_output_of_a_step_is_split(play: Play, porter: Porter) -> None:
    play.define(
        {"stepName": "make", "content": "x", "outputs": [{"name": "big"}]},
        {
            "stepName": "a",
            "content": "x",
            "sharding": 3,
            "inputs": [{"name": "big", "origin": "make"}],
            "partition": {"input": "big", "index": "line"},
        },
    )
    play.submit()
    [lease] = play.take(1)
    porter.end(lease, {"big": LINES})
    assert b"".join(parts(play, porter, "big")) == LINES


def test_a_rerun_reads_the_same_parts(play: Play, porter: Porter) -> None:
    define(play, porter, LINES, {"index": "line"}, sharding=4)
    leases = sorted(play.take(4), key=lambda lease: lease.sharding.index)
    before = [porter.fetch(lease) for lease in leases]
    play.hands.report([leases[0], leases[1], leases[3]])
    play.hands.report([leases[2]], "failed-permanent")
    assert play.run()["state"] == "FAILED"
    assert play.cloud.http("POST", "/v1/jobs/play/t1:rerun").status == 200
    [again] = play.take(1)
    assert porter.fetch(again) == before[2]


@pytest.mark.parametrize(
    ("data", "name", "partition", "said"),
    [
        (gzip.compress(LINES), "in.txt", {"index": "line"}, "gzip"),
        (LINES, "in.gz", {"index": "line"}, "gzip"),
        (None, "in.txt", {"index": "line"}, "does not exist"),
        (LINES, "in.txt", {"index": "record"}, "fasta"),
        (LINES * 80, "in.txt", {"index": "bytes"}, None),
    ],
)
def test_what_cannot_be_split_fails_the_step_and_says_why(
    play: Play, porter: Porter, data: bytes | None, name: str, partition: Any, said: str | None
) -> None:
    define(play, porter, data, partition, name=name, sharding=3)
    if said is None:
        assert len(parts(play, porter)) == 3
        return
    job = play.run()
    assert job["state"] == "FAILED"
    assert said in job["steps"][0]["notes"]


def test_an_address_is_not_split(play: Play) -> None:
    step = {"stepName": "a", "content": "x", "inputs": [{"name": "i", "url": "https://example.com/x"}]}
    play.define({**step, "partition": {"input": "i"}, "sharding": 2})
    play.submit()
    assert "put it into S3" in play.run()["steps"][0]["notes"]


def test_what_was_counted_limits_the_parts_and_a_template_may_say_how_many(
    play: Play, porter: Porter
) -> None:
    play.define(
        {"stepName": "make", "content": "x", "outputs": [{"name": "big", "uploadIndex": "record"}]},
        {
            "stepName": "a",
            "content": "x",
            "sharding": "{{ params.n }}",
            "inputs": [{"name": "big", "origin": "make"}],
            "partition": {"input": "big", "index": "record"},
        },
        params={"n": 50},
    )
    play.submit()
    [lease] = play.take(1)
    data = b">a\nACGT\n>b\nAC\n>c\nGT\n"
    [stored] = porter.store(lease, {"big": data})
    play.hands.report([lease], files=[{**stored, "indexed": {"by": "record", "units": 3}}])
    found = parts(play, porter, "big")
    assert b"".join(found) == data
    assert len(found) <= 3
    assert [file["indexed"] for file in porter.listed()] == [{"by": "record", "units": 3}]
