"""Take the pictures of docs/pictures from a running dashboard.

    PYTHONPATH=tests python scripts/pictures.py

It starts `shardmill dev` in a temporary folder, runs a Job on it until its last steps wait, and saves
screenshots of Chromium, in light and dark.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, expect, sync_playwright

from support.browser import CHROMIUM_ARGUMENTS, WHY_NOT
from support.laptop import Laptop, start_laptop
from support.waits import run_until

FOLDER = Path(__file__).parents[1] / "docs/pictures"
MAX_BYTES = 300_000
WIDTH, HEIGHT = 1280, 760
SECONDS = 180.0
JOB = "settlement", "2026-11-18"
TASKS, DONE = 96, 66
"""The tasks of step price_trades, and how many of them end; the others run until the pictures are taken."""
SLOTS = 32

STEPS: list[dict[str, Any]] = [
    {"stepName": "fetch_trades", "sharding": 48},
    {"stepName": "fetch_rates", "sharding": 6},
    {"stepName": "fetch_limits", "sharding": 2},
    {"stepName": "clean_trades", "sharding": 96, "dependentSteps": ["fetch_trades"]},
    {
        "stepName": "price_trades",
        "sharding": TASKS,
        "type": "shell",
        "content": f"test {{{{ shard.index }}}} -lt {DONE} || sleep 300",
        "dependentSteps": ["clean_trades", "fetch_rates"],
    },
    {
        "stepName": "check_feeds",
        "sharding": 6,
        "type": "shell",
        "content": "test {{ shard.index }} -ne 4 || { echo feed 4 is two hours late >&2; exit 42; }",
        "canFail": True,
        "dependentSteps": ["fetch_rates"],
    },
    {
        "stepName": "risk_by_desk",
        "sharding": 240,
        "dependentSteps": ["price_trades", "check_feeds", "fetch_limits"],
    },
    {"stepName": "reconcile", "sharding": 12, "dependentSteps": ["price_trades"]},
    {"stepName": "report", "dependentSteps": ["risk_by_desk", "reconcile"]},
    {"stepName": "publish", "dependentSteps": ["report"]},
    {"stepName": "archive", "sharding": 4, "dependentSteps": ["reconcile"]},
]


def main() -> int:
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit(f"pictures: {WHY_NOT}")
    FOLDER.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        start_laptop(Path(folder), workers=2) as laptop,
        sync_playwright() as playwright,
    ):
        laptop.worker("--group", "default", "--name", "batch-1", "--slots", str(SLOTS))
        _run_job(laptop)
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_ARGUMENTS)
        files = [
            _take(browser, laptop, name, theme)
            for name, theme in (("job.png", "light"), ("job-dark.png", "dark"))
        ]
        browser.close()
        _call(laptop, "POST", f"/v1/jobs/{'/'.join(JOB)}:kill")
        run_until(lambda: _is_idle(laptop), timeout=SECONDS, interval=0.5)
    large = [file.name for file in files if file.stat().st_size > MAX_BYTES]
    if large:
        sys.exit(f"pictures: larger than {MAX_BYTES} bytes: {', '.join(large)}")
    return 0


def _run_job(laptop: Laptop) -> None:
    name, trigger = JOB
    document = {
        "jobName": name,
        "description": "prices the trades of a day and reports the risk of each desk",
        "appName": "finance",
        "params": {"day": trigger},
        "steps": [{"type": "noop", **step} for step in STEPS],
    }
    _call(laptop, "PUT", f"/v1/definitions/{name}", document)
    _call(laptop, "POST", "/v1/jobs", {"jobName": name, "trigger": trigger})
    run_until(lambda: _is_ready(laptop), timeout=SECONDS, interval=0.5)


def _is_ready(laptop: Laptop) -> bool:
    job = _call(laptop, "GET", f"/v1/jobs/{'/'.join(JOB)}")
    steps: Mapping[str, Any] = {step["stepName"]: step for step in job["steps"]}
    priced = steps.get("price_trades", {}).get("counts", {})
    done, held = priced.get("SUCCESS", 0), priced.get("RUNNING", 0)
    return done == DONE and held == TASKS - DONE and steps["check_feeds"]["state"] == "TOLERATED"


def _is_idle(laptop: Laptop) -> bool:
    return all(worker["remainTasks"] == 0 for worker in _call(laptop, "GET", "/v1/workers")["items"])


def _call(laptop: Laptop, method: str, path: str, body: object = None) -> Any:
    answer = laptop.request(method, path, body)
    answer.raise_for_status()
    return answer.json() if answer.content else None


def _take(browser: Browser, laptop: Laptop, name: str, theme: Any) -> Path:
    page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=theme)
    page.goto(f"{laptop.url.rstrip('/')}/#/jobs/{'/'.join(JOB)}")
    expect(page.get_by_role("group", name="Graph of the steps")).to_be_visible(timeout=30_000)
    expect(page.get_by_role("region", name="Why")).to_be_visible(timeout=30_000)
    expect(page.locator(".spinner")).to_have_count(0)
    file = FOLDER / name
    page.screenshot(path=file)
    page.close()
    return file


if __name__ == "__main__":
    sys.exit(main())
