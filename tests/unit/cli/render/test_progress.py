"""Progress of a running job."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from shardmill.cli.render.job import waits_for
from shardmill.cli.render.progress import RunningTasks, StateChanges, job_bars, visible_steps
from shardmill.client.client import Client
from shardmill.client.errors import ServerError
from shardmill.model.job import Job, Step, Task
from shardmill.model.states import TaskState
from support.fakes.api import job, step, task

Draw = Callable[[Any], list[str]]


def steps_of(*states: str) -> list[Step]:
    return [Step.model_validate(step(f"s{at}", state, index=at)) for at, state in enumerate(states)]


def tasks_at(*progress: dict[str, Any]) -> list[Task]:
    return [
        Task.model_validate(task(at, "RUNNING", progress=progress)) for at, progress in enumerate(progress)
    ]


class FakeClient:
    """Records the steps whose tasks are read."""

    def __init__(self, *found: Task) -> None:
        self.found = list(found)
        self.steps_read: list[str] = []

    def some_tasks(self, _: str, __: str, step_name: str, state: TaskState, most: int) -> list[Task]:
        assert (state, most) == (TaskState.RUNNING, 10)
        self.steps_read.append(step_name)
        if not self.found:
            raise ServerError("broken")
        return self.found


def test_running_steps_take_precedence_if_room_is_limited() -> None:
    steps = steps_of("SUCCESS", "SUCCESS", "FAILED", "RUNNING", "READY", "WAITING", "WAITING")
    assert visible_steps(steps, 7) == steps
    assert [each.index for each in visible_steps(steps, 4)] == [2, 3, 4]
    assert [each.index for each in visible_steps(steps, 5)] == [2, 3, 4, 5]


def test_bars_count_hidden_steps(draw: Draw) -> None:
    shown = Job.model_validate(job("RUNNING", *(step(f"s{at}", "WAITING", index=at) for at in range(50))))
    lines = draw(job_bars(shown, 10, {}))
    assert "41 more steps" in lines[-1]
    assert len(lines) == 11


def test_step_names_are_not_markup(draw: Draw) -> None:
    shown = Job.model_validate(job("RUNNING", step("[red]x[/red]", counts={"FAILED": 2})))
    text = "\n".join(draw(job_bars(shown, 10, {})))
    assert "[red]x[/red]" in text
    assert "2 failed" in text


def test_running_tasks_are_drawn_below_their_step(draw: Draw) -> None:
    shown = Job.model_validate(job("RUNNING", step("a"), step("b", "WAITING", index=1)))
    progress = [{"percent": 42.4, "message": "half [red]x\x1b[2J"}, {"message": "soon"}, {"percent": 100}]
    lines = draw(job_bars(shown, 10, {"a": tasks_at(*progress)}))
    assert [line.split()[0] for line in lines] == ["report/t1", "a", "task", "task", "task", "b"]
    assert lines[2].rstrip().endswith("42% half [red]x [2J")
    assert (lines[3].split(), lines[4].split()[-1]) == (["task", "1", "soon"], "100%")
    assert len(draw(job_bars(shown, 3, {"a": tasks_at(*progress)}))) == 4
    assert len(draw(job_bars(shown, 2, {"a": tasks_at(*progress)}))) == 3


def test_waiting_reason_is_printed_once(draw: Draw, capsys: pytest.CaptureFixture[str]) -> None:
    sentence = "a worker of group reports that can run java"
    shown = Job.model_validate(job("RUNNING", waitingFor=[sentence]))
    changes = StateChanges()
    changes(shown)
    changes(shown)
    assert capsys.readouterr().err.count(f"job report/t1 is waiting for: {sentence}\n") == 1
    assert f"waiting for: {sentence}" in draw(job_bars(shown, 10, {}))


@pytest.mark.parametrize("prefix", ["waits for ", "waits until ", ""])
def test_a_reason_to_wait_does_not_say_twice_that_the_job_waits(prefix: str) -> None:
    shown = Job.model_validate(job("WAITING", waitingFor=[f"{prefix}2030-01-01T00:00:00Z, as requested"]))
    assert waits_for(shown) == ["2030-01-01T00:00:00Z, as requested"]


def test_tasks_of_running_steps_are_read_at_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = Task.model_validate(task(9, "RUNNING"))
    client = FakeClient(*tasks_at(*[{"percent": 1}] * 7), silent)
    running = RunningTasks(cast(Client, client))
    shown = Job.model_validate(job("RUNNING", step("a"), step("b", "WAITING", index=1)))
    for _ in range(5):
        assert [each.rank for each in running.tasks(shown)["a"]] == [0, 1, 2, 3, 4]
    assert client.steps_read == ["a"]
    monkeypatch.setattr("shardmill.cli.render.progress.REFRESH_SECONDS", 0.0)
    client.found = []
    assert running.tasks(shown) == {"a": []}
    assert running.tasks(Job.model_validate(job("SUCCESS", step("a", "SUCCESS")))) == {}
    assert client.steps_read == ["a", "a"]
