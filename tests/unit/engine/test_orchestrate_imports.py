"""What a cold start of functions/orchestrate imports."""

import subprocess
import sys

from support.paths import PROJECT


def test_opening_and_closing_steps_import_no_models() -> None:
    """Only the plan of a job needs them; pydantic alone takes a fifth of a cold start."""
    script = "import app, sys; print('pydantic' in sys.modules, 'shardmill.model.base' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=PROJECT / "functions" / "orchestrate",
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert done.stdout.split() == ["False", "False"]
