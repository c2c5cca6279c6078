"""Submit AWE documents as users do: fill the placeholders, upload the inputs, and watch the job."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.awe.wire import Files, Response, send
from support.paths import PROJECT
from support.waits import run_until

SAMPLES = PROJECT / "tests/data/awe"
_PREDATA = re.compile(r"/node/([0-9a-f-]{36})\?download")


@dataclass
class Submitter:
    """`url` is the address of the server's `/awe`; `token` is a user's token."""

    url: str
    token: str

    def call(self, method: str, path: str, files: Files | None = None) -> Response:
        return send(method, f"{self.url}{path}", token=f"OAuth {self.token}", files=files)

    def upload(self, content: bytes, name: str = "input.fna") -> str:
        """The id of a new node."""
        node: str = self.call("POST", "/node", {"upload": (name, content)}).data["id"]
        return node

    def fill(self, sample: str, content: bytes, **values: str) -> str:
        """A sample document with its placeholders filled, and with nodes for its inputs and predata."""
        text = (SAMPLES / sample).read_text()
        references = {
            node: self.upload(b"reference " + node.encode(), node) for node in _PREDATA.findall(text)
        }
        for old, new in references.items():
            text = text.replace(old, new)
        given = {"jobname": "j1", "project": "p", "user": "u", "clientgroups": "docker", "totalwork": "3"}
        given |= {"inputfile": "input.fna", "shockurl": self.url.removeprefix("http://"), **values}
        if "#shocknode" in text:
            given["shocknode"] = self.upload(content)
        for name in sorted(given, key=len, reverse=True):
            text = text.replace(f"#{name}", given[name])
        return text

    def submit(self, document: str) -> str:
        """Submit a document; return the id of the job."""
        job: str = self.call("POST", "/job", {"upload": ("job.awf", document.encode())}).data["id"]
        return job

    def job(self, job_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.call("GET", f"/job/{job_id}").data
        return found

    def wait(self, job_id: str, *states: str, seconds: float = 30) -> dict[str, Any]:
        """The job, once it is in one of the states."""
        return self.wait_for(job_id, lambda job: job["state"] in states, seconds)

    def wait_for(
        self, job_id: str, reached: Callable[[dict[str, Any]], bool], seconds: float = 30
    ) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            job = self.job(job_id)
            return job if reached(job) else None

        found = run_until(look, seconds, interval=0.1, describe=lambda: str(self.job(job_id)))
        assert found is not None
        return found

    def output(self, job: dict[str, Any], task: int, name: str) -> bytes:
        """The content of an output."""
        from support.awe.wire import fetch

        files = job["tasks"][task]["outputs"]
        [file] = [each for each in files if each["filename"] == name]
        return fetch(f"{file['host']}/node/{file['node']}?download", f"OAuth {self.token}")


def write_programs(folder: Path) -> Path:
    """Stand-ins for the programs of the sample documents; each copies its input in capital letters."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, script in _PROGRAMS.items():
        path = folder / name
        path.write_text(f"#!/bin/sh\nset -e\n{script}")
        path.chmod(0o755)
    return folder


_COPY = """
for word in "$@"; do
  case "$word" in
    -input=*|--input=*) in="${word#*=}";;
    -output=*|--output=*) outs="${word#*=}";;
    -out_prefix=*) outs="${word#*=}.faa ${word#*=}.fna";;
  esac
done
for out in $outs; do tr a-z A-Z < "$in" > "$out"; done
echo "made $outs"
"""
_NEED_INDEX = """
for part in 1 2 3 4 rev.1 rev.2; do grep -q reference h_sapiens_asm.$part.ebwt; done
"""
_DRISEE = """
for end in STAT.txt.non_contaminated STAT.txt.contaminated STAT.txt STAT.txt.non_contaminated.per \\
    STAT.txt.contaminated.per stdout.txt log.txt; do cp "$2" "$(basename $2).drisee_$end"; done
"""
_PROGRAMS = {
    "awe_preprocess.pl": _COPY + 'echo \'{"made": "by preprocess"}\' > prep.fna.attr\n',
    "awe_dereplicate.pl": _COPY,
    "awe_bowtie_screen.pl": _NEED_INDEX + _COPY,
    "awe_genecalling.pl": _COPY,
    "awe_cluster_parallel.pl": _COPY,
    "awe_blat.py": "grep -q reference md5nr.1\n" + _COPY,
    "process_DRISEE2_from_seq_file.pl": _DRISEE,
    "sleep": "exit 0\n",
}
