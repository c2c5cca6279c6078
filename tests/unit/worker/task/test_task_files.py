"""Paths of files in the arguments of a command."""

from __future__ import annotations

import pytest

from shardmill.worker.outcome import InvalidTask
from shardmill.worker.task.task_files import with_paths
from support.fakes.leases import a_command, a_lease


def words(args: str) -> list[str] | None:
    lease = with_paths(
        a_command("awe_preprocess.pl", args=args), ["reads.fna", "part-0", "part-1", "-x"], ["prep.*", "opt"]
    )
    return lease.command.args_array if lease.command else None


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ("-input=@reads.fna -output=@prep.fna", ["-input=reads.fna", "-output=prep.fna"]),
        ("--in=@part-* 'a b'", ["--in=part-0", "--in=part-1", "a b"]),
        ("@opt @none-*", ["opt"]),
        ("@-x --in=@-x @@-x", ["./-x", "--in=-x", "@-x"]),
        ("'@reads.fna' ops@@example.com", ["reads.fna", "ops@example.com"]),
    ],
)
def test_names_of_files_become_paths(args: str, expected: list[str]) -> None:
    assert words(args) == expected


def test_a_name_that_is_not_a_file_of_the_task_fails_with_the_name() -> None:
    with pytest.raises(
        InvalidTask, match=r"@other\.fna in the arguments of 'awe_preprocess\.pl' is not a file"
    ):
        words("-input=@other.fna")


def test_a_task_without_references_is_unchanged() -> None:
    for lease in (a_lease(content="echo a@b"), a_command("echo", args="a b")):
        assert with_paths(lease) is lease
