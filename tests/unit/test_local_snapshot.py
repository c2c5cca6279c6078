"""State that is saved while the emulator runs: whole, and never over a later save."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys, threading, time
from pathlib import Path
from types import SimpleNamespace
from shardmill.local import snapshot

file = Path(sys.argv[1])
memory = {"n": 0}

def save_all(services):
    time.sleep(float(sys.argv[2]))
    fresh = file.with_suffix(".tmp")
    fresh.write_text(str(services["n"]))
    fresh.replace(file)

app = SimpleNamespace(save_all=save_all, _build_persistence_save_dict=lambda: dict(memory))
snapshot.INTERVAL_SECONDS = 0.05
snapshots = snapshot.Snapshots(app)
snapshots.start()
for n in range(1, 6):
    memory["n"] = n
    time.sleep(0.1)
seen = file.read_text() if file.exists() else "nothing"
memory["n"] = "last"
app.save_all(dict(memory))
time.sleep(0.3)
print(seen, file.read_text())
"""


def outcome(file: Path, seconds_of_a_save: float) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(file), str(seconds_of_a_save)],
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.skipif(sys.platform != "linux", reason="snapshots are forked on Linux only")
def test_state_is_saved_while_it_changes(tmp_path: Path) -> None:
    seen, last = outcome(tmp_path / "state", 0.0)
    assert seen in {"1", "2", "3", "4", "5"}
    assert last == "last"


def test_a_snapshot_in_the_making_does_not_come_over_the_last_save(tmp_path: Path) -> None:
    """Each save takes longer than the program waits: the one in the making must be ended, not awaited."""
    assert outcome(tmp_path / "state", 1.0) == ["nothing", "last"]
