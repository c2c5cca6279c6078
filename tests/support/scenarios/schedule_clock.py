"""Save, tick and read schedules at times that the test chooses."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from moto.sqs.models import sqs_backends

from shardmill.aws import clock
from shardmill.aws.clock import new_id
from shardmill.engine.schedules import manage
from shardmill.engine.tick import tick
from shardmill.model.actor import Actor
from shardmill.model.timestamps import to_ms
from shardmill.store.rows import JobRow
from support.moto.stack import ACCOUNT, REGION
from support.scenarios.job_runner import JobRunner


def at(text: str) -> datetime:
    """`2026-03-29 02:30` and the like, UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def ms(text: str) -> int:
    return to_ms(at(text))


class ScheduleClock:
    """The schedule `s` of the definition `orders`, unless another is named."""

    def __init__(self, runner: JobRunner) -> None:
        self.runner = runner
        self.mill = runner.mill

    def save(self, now: str, name: str = "orders", schedule_id: str = "s", **document: Any) -> None:
        manage.save(self.mill, name, schedule_id, document, Actor("planner"), now=ms(now))

    def tick(self, now: str) -> dict[str, int]:
        return tick(self.mill, ms(now), new_id)

    def serve_fire_queue(self, now: str) -> int:
        """Deliver the messages of `functions/fire` until a time, each at its time; return their number."""
        served = 0
        while times := [time for time in self.handed_over() if time <= ms(now)]:
            for message in self._fire_queue():
                later = json.loads(message.body)["now"] > times[0]
                message.delayed_until = float("inf") if later else 0.0
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(clock, "now_ms", lambda: times[0])
                served += self.runner.cloud.serve_fire_queue()
        return served

    def handed_over(self) -> list[int]:
        """The times of the messages in the queue of `functions/fire`, in order."""
        return sorted(json.loads(message.body)["now"] for message in self._fire_queue())

    def lose_messages(self) -> int:
        """Delete the messages in the queue of `functions/fire`; return their number."""
        lost = len(self._fire_queue())
        self.runner.cloud.clients.sqs.purge_queue(QueueUrl=self.mill.settings.fire_queue)
        return lost

    def run(self, start: str, end: str) -> None:
        """Tick every minute from `start` on, and deliver each message at its time."""
        now = at(start)
        while now <= at(end):
            self.serve_fire_queue(_text(now))
            self.tick(_text(now))
            now += timedelta(minutes=1)
        self.serve_fire_queue(end)

    def _fire_queue(self) -> list[Any]:
        name = self.mill.settings.fire_queue.rsplit("/", 1)[1]
        queue = sqs_backends[ACCOUNT][REGION].queues[name]
        return [message for message in queue._messages if message.visible]

    def history(self, name: str = "orders", schedule_id: str = "s") -> list[dict[str, Any]]:
        """Oldest first."""
        answer = self.runner.cloud.http("GET", f"/v1/schedules/{name}/{schedule_id}")
        assert answer.status == 200, answer
        entries: list[dict[str, Any]] = answer.json["history"]
        return entries[::-1]

    def outcomes(self, name: str = "orders", schedule_id: str = "s") -> list[tuple[str, str]]:
        """The time of each firing (and the last one, if it covers several) and its outcome."""
        found = []
        for entry in self.history(name, schedule_id):
            until = f" to {_short(entry['until'])}" if entry["until"] else ""
            found.append((_short(entry["time"]) + until, entry["outcome"]))
        return found

    def next(self, name: str = "orders", schedule_id: str = "s") -> str | None:
        answer = self.runner.cloud.http("GET", f"/v1/schedules/{name}/{schedule_id}").json
        return _short(answer["nextTime"]) if answer["nextTime"] else None

    def jobs(self, name: str = "orders") -> list[str]:
        """The dataTimes of the Jobs of a definition, oldest first."""
        items = self.runner.cloud.http("GET", f"/v1/jobs?jobName={name}&limit=1000").json["items"]
        return sorted(_short(item["dataTime"]) for item in items)

    def job(self, time: str, name: str = "orders") -> JobRow:
        ids = [job_id for _, job_id in self.mill.runs.between(name, ms(time), ms(time) + 1)]
        assert len(ids) == 1, (time, ids)
        return self.mill.jobs.by_id(ids)[ids[0]]

    def state(self, time: str, name: str = "orders") -> str:
        return self.job(time, name).state.value

    def end(self, time: str, name: str = "orders", *, outcome_of: Any = None) -> dict[str, Any]:
        """Work until the Job of a time has ended."""
        trigger = self.job(time, name).trigger
        return self.runner.run(*([outcome_of] if outcome_of else []), trigger=trigger, name=name)


def _text(moment: datetime) -> str:
    return moment.replace(tzinfo=None).isoformat(" ")


def _short(text: str) -> str:
    return text.removesuffix(":00.000Z").removesuffix(".000Z").replace("T", " ")
