"""Run the shell commands of the documentation, page by page, against one laptop cloud."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shardmill.client.client import Client
from support.documented_commands import PAGES, Block, blocks
from support.laptop import Laptop, start_laptop
from support.paths import PROJECT
from support.scenarios.documented_pages import PREPARATION

# A page runs up to twenty commands, each a process of its own: slow beside other tests.
pytestmark = [pytest.mark.xdist_group("docs"), pytest.mark.timeout(300)]

RUN = {
    page: found for page in PAGES if (found := [b for b in blocks(page) if b.language == "sh" and not b.need])
}
SECONDS = 240.0
_WRAPPER = """\
#!/bin/sh
# The `shardmill` of the documentation: dev runs already, and a worker runs in the background.
case "$1" in
  dev) echo "ready" ;;
  worker) "{python}" -m shardmill "$@" >>"$PIDS.log" 2>&1 & echo $! >>"$PIDS"
    for _ in $(seq 100); do grep -q registered "$PIDS.log" && exit 0; sleep 0.1; done; exit 1 ;;
  open) exec "{python}" -m shardmill "$@" --print ;;
  *) exec "{python}" -m shardmill "$@" ;;
esac
"""


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laptop]:
    with start_laptop(tmp_path_factory.mktemp("docs")) as started:
        yield started


@pytest.fixture
def folder(cloud: Laptop, tmp_path: Path) -> Iterator[Path]:
    """A folder like a clone of the repository with its environment; workers of the page end with it."""
    for each in PROJECT.iterdir():
        if each.name not in (".venv", ".git", ".shardmill"):
            (tmp_path / each.name).symlink_to(each)
    for program in (tmp_path / ".venv/bin/shardmill", tmp_path / "bin/shardmill"):
        program.parent.mkdir(parents=True)
        program.write_text(_WRAPPER.format(python=sys.executable))
        program.chmod(0o755)
    (tmp_path / ".venv/bin/python").symlink_to(sys.executable)
    (tmp_path / ".shardmill").mkdir()
    (tmp_path / ".shardmill/admin-token").write_text(cloud.token)
    yield tmp_path
    pids = tmp_path / "pids"
    for pid in pids.read_text().split() if pids.exists() else ():
        subprocess.run(["kill", pid], check=False, timeout=10)
    _reset(cloud)


@pytest.mark.parametrize("page", RUN, ids=lambda page: str(page.relative_to(PROJECT)))
def test_the_commands_of_a_page_succeed(cloud: Laptop, folder: Path, page: Path) -> None:
    name = str(page.relative_to(PROJECT))
    done = subprocess.run(
        ["bash", "-c", _script(name, RUN[page])],
        cwd=folder,
        env=_environment(cloud, folder),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    at = [line for line in done.stderr.splitlines() if line.startswith("::")][-1:]
    assert done.returncode == 0, f"{at}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"


def test_every_prepared_page_is_run() -> None:
    ran = {str(page.relative_to(PROJECT)): len(found) for page, found in RUN.items()}
    for name, steps in PREPARATION.items():
        assert name in ran
        assert all(0 <= number < ran[name] for number in steps), name


def _script(name: str, found: list[Block]) -> str:
    prepared = PREPARATION.get(name, {})
    parts = ["set -euo pipefail"]
    for number, block in enumerate(found):
        parts += [f"echo '::preparing {block}' >&2", prepared.get(number, "")]
        parts += [f"echo '::{block}' >&2", block.text]
    return "\n".join(parts)


def _environment(cloud: Laptop, folder: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("LANG", "TZ") if name in os.environ}
    return kept | {
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "HOME": str(folder),
        "PIDS": str(folder / "pids"),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "SHARDMILL_URL": cloud.url.rstrip("/"),
        "SHARDMILL_TOKEN": cloud.token,
        "DEV_STATE": str(cloud.state),
    }


def _reset(cloud: Laptop) -> None:
    """Delete what a page has created, so that the pages do not depend on each other."""
    with Client(cloud.url, cloud.token) as client:
        for schedule in list(client.schedules()):
            client.delete_schedule(schedule.job_name, schedule.schedule_id)
        for job in list(client.jobs()):
            client.delete_job(job.job_name, job.trigger)
        for definition in list(client.definitions()):
            client.delete_definition(definition.job_name)
