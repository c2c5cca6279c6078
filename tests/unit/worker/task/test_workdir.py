"""The folder of a task: it is removed completely, and nothing outside of it changes."""

import logging
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from shardmill.worker.task.execute import Runtime, execute
from support.fakes.leases import a_lease
from support.processes import gone
from support.worker_log import actions

HOSTILE = """
    mkdir -p deep/er/est && touch deep/er/est/file
    ln -s {outside} link; ln -s {outside}/kept deep/link; ln -s /nowhere dangling
    ln -s {outside} ../link
    mkfifo pipe
    (while :; do mkdir -p again/$RANDOM 2>/dev/null; sleep 0.01; done) &
    echo $! > {pids}
    setsid sh -c 'for n in 0 1 2 3 4 5 6 7 8 9; do touch x$n; sleep 0.02; done' 2>/dev/null &
    chmod 000 deep/er/est deep/er deep ..
    chmod 000 .
"""


def tree(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_the_folder_of_a_hostile_task_is_removed_without_side_effects(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o750)
    (outside / "kept").write_text("kept")
    (outside / "kept").chmod(0o640)
    before = tree(tmp_path)
    runtime = Runtime(tmp_path / "work", kill_seconds=0.3)
    content = textwrap.dedent(HOSTILE.format(outside=outside, pids=tmp_path / "pids"))
    with caplog.at_level(logging.WARNING):
        result = execute(a_lease(content=content), runtime, threading.Event())
    assert (result.outcome, result.stderr) == ("success", None)
    assert gone(int((tmp_path / "pids").read_text()))
    made = {"pids", "work"}
    assert [path for path in tree(tmp_path) if path not in made] == before
    assert (outside / "kept").read_text() == "kept"
    assert [path.stat().st_mode & 0o777 for path in (outside, outside / "kept")] == [0o750, 0o640]
    assert "folder-remove-failed" not in actions(caplog)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can switch to an unprivileged user")
def test_folders_without_permissions_are_removed(tmp_path: Path) -> None:
    """Root can remove anything, so the test runs as another user."""
    script = f"""
        import os, sys, tempfile
        from pathlib import Path
        sys.path[:0] = {sys.path!r}
        from shardmill.worker.task.workdir import create_task_dir
        from support.fakes.leases import a_lease
        os.setgid(65534); os.setuid(65534)
        root = Path(tempfile.mkdtemp(prefix="shardmill-test-"))
        with create_task_dir(a_lease(), root, None, keep=False) as place:
            (place.work / "a" / "b").mkdir(parents=True)
            (place.work / "a" / "b" / "c").touch()
            for path in (place.work / "a" / "b", place.work / "a", place.work):
                path.chmod(0)
        print(os.listdir(root))
        root.rmdir()
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_kept_folders_are_private(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path / "work", keep=True)
    execute(a_lease(content="touch made; echo said"), runtime, threading.Event())
    (folder,) = runtime.root.iterdir()
    assert folder.stat().st_mode & 0o077 == 0
    assert tree(folder) == ["params.json", "session.json", "stderr", "stdout", "work", "work/made"]
