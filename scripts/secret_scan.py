"""Look for secrets with detect-secrets in every file that is committed or could be.

Secrets that .secrets.baseline lists are accepted.

After a false positive: `.venv/bin/python scripts/secret_scan.py --accept`. Review the change of the baseline.
Findings are compared by file, kind and hash, so that a baseline stays valid when lines move."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from detect_secrets.core.scan import scan_file
from detect_secrets.settings import default_settings

ROOT = Path(__file__).parents[1]
BASELINE = ROOT / ".secrets.baseline"
GENERATED = ("uv.lock", "layers/core/python/shardmill/api/openapi.json", BASELINE.name)
RECORDED = "tests/data/release-"
KEYWORD = "Secret Keyword"

Finding = tuple[str, str, str, int]  # file, kind, hash, line


def committable() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    )
    names = [name for name in listed.stdout.split("\0") if name not in GENERATED and (ROOT / name).is_file()]
    return [name for name in names if not name.startswith(RECORDED)]


def found_in(names: Sequence[str]) -> list[Finding]:
    with default_settings():
        return [
            (name, each.type, each.secret_hash, each.line_number)
            for name in names
            for each in scan_file(str(ROOT / name))
            if not (each.type == KEYWORD and name.startswith("tests/"))  # made-up passwords of tests
        ]


def scan(names: Sequence[str]) -> list[Finding]:
    parts = [names[start::8] for start in range(8)]
    with ProcessPoolExecutor(2) as pool:
        return sorted(finding for found in pool.map(found_in, parts) for finding in found)


def accept(findings: Iterable[Finding]) -> None:
    entries = sorted({(name, kind, digest) for name, kind, digest, _ in findings})
    BASELINE.write_text(json.dumps(entries, indent=1) + "\n")


def main(arguments: Sequence[str]) -> int:
    findings = scan(committable())
    if "--accept" in arguments:
        accept(findings)
        return 0
    known = {tuple(entry) for entry in json.loads(BASELINE.read_text())}
    unknown = [each for each in findings if each[:3] not in known]
    for name, kind, _, line in unknown:
        print(f"{name}:{line}: {kind}; if this is not a secret, run scripts/secret_scan.py --accept")
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
