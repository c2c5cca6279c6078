"""Invariants of a Job's rows under concurrent workers, clocks and users."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from shardmill.engine.views.explain import history
from shardmill.model.blocks import Shard, block_count, block_size
from shardmill.model.history import Change
from shardmill.model.states import JOB_MOVES, STEP_MOVES, JobState, StepState, TaskState
from shardmill.store.rows import JobRow, StepRow
from support.scenarios.races.race import Race
from support.scenarios.races.race_environment import block_key
from support.watch import observing

Ends = dict[tuple[int, int, int], Shard]


class JobInvariants:
    """Checks a race after each event, and records values that must not change."""

    def __init__(self, race: Race) -> None:
        self.race = race
        self.ends: Ends = {}
        self.histories: dict[tuple[str, str], list[str]] = {}

    def check(self) -> None:
        rows = self.race.rows()
        self._check_histories(rows)
        self._check_ends(rows)

    def _check_histories(self, rows: dict[tuple[str, str], dict[str, Any]]) -> None:
        """Histories have only legal moves, are never rewritten, and end with the current state."""
        for key, row in rows.items():
            if not key[0].startswith("JOB#") or key[1] == "watch" or row.get("kind") in ("gate", "end"):
                continue
            texts = row.get("history", [])
            before = self.histories.get(key, [])
            assert texts[: len(before)] == before, f"the history of {key} was rewritten"
            self.histories[key] = texts
            changes = [Change.decode(text) for text in texts]
            states = [each.state for each in changes if not each.reason.startswith("changed ")]
            if not texts:
                assert "kept_from" in row or row["state"] in ("WAITING", "SKIPPED"), f"{key} has no history"
                continue
            assert states[-1] == row["state"], f"{key} is {row['state']}, its history is {states}"
            for old, new in pairwise(states if key[1] == "job" else ["WAITING", *states]):
                legal: Any = JOB_MOVES[JobState(old)] if key[1] == "job" else STEP_MOVES[StepState(old)]
                assert new in legal, f"{key}: {old} -> {new} is not a legal move: {states}"

    def _check_ends(self, rows: dict[tuple[str, str], dict[str, Any]]) -> None:
        """A task ends once in a run."""
        found = {
            (step.run, step.index, rank): shard
            for step in self.race.steps().values()
            if not step.kept_from
            for rank, shard in tasks(rows, step).items()
            if shard.state.ended
        }
        job = self.race.job()
        if job and not job.purge:
            for place, shard in self.ends.items():
                purged = place not in found and not any(place[:2] == key for key in self.race.steps())
                assert purged or found.get(place) == shard, f"{place} was {shard}, is {found.get(place)}"
        self.ends |= found

    def check_final_state(self) -> None:
        """Check a Job that has ended or has no running task."""
        job = self.race.job()
        rows = self.race.rows()
        if not job:
            assert not self.race.stable_rows(), "rows of a deleted Job are left"
        if not job or job.purge:
            return
        assert job.state.ended or not job.parked, f"the Job is {job.state}"
        for step in self.race.steps().values():
            where = f"step {step.name} of run {step.run}"
            assert step.state.ended, f"{where} is {step.state}, its Job {job.state}"
            if not step.kept_from:
                self._check_counts(rows, step)
        self._check_end(job.state)
        self._check_published_history(job)
        assert not self.race.messages(), f"messages are left: {self.race.messages()}"
        live = [
            each.name for each in self.race.state_machines.executions.values() if each.status == "RUNNING"
        ]
        assert not live, f"executions are left: {live}"

    def _check_counts(self, rows: dict[tuple[str, str], dict[str, Any]], step: StepRow) -> None:
        states = [shard.state for shard in tasks(rows, step).values()]
        success, failed = states.count(TaskState.SUCCESS), states.count(TaskState.FAILED)
        counts = (step.success, step.failed, step.killed)
        if step.state is StepState.KILLED:
            counts = (step.success, step.failed, step.total - step.success - step.failed)
        assert counts == (success, failed, step.total - success - failed), (
            f"step {step.name} of run {step.run}, {step.state}, counts {counts} for {states}"
        )
        assert not step.open, f"step {step.name} of run {step.run} ended with open blocks"

    def _check_published_history(self, job: JobRow) -> None:
        """The published history lists the moves of each row in their order."""
        with observing():
            published = history(self.race.mill, job)
        rows: dict[tuple[str | None, int], list[str]] = {
            (None, run): job.history for run in range(1, job.run + 1)
        }
        rows |= {(step.name, step.run): step.history for step in self.race.steps().values()}
        for (name, run), texts in rows.items():
            expected = [change.state for change in map(Change.decode, texts) if change.run == run]
            shown = [each.state for each in published if (each.step_name, each.run) == (name, run)]
            assert shown == expected, (
                f"{name or 'the Job'} in run {run} made the moves {expected}, the history shows {shown}"
            )

    def _check_end(self, state: JobState) -> None:
        """A Job succeeds only if its steps do, unless its state was forced."""
        job = self.race.job()
        assert job is not None
        if job.state is JobState.SUCCESS and not any("forced" in text for text in job.history):
            unsuccessful = [
                step.name for step in self.race.current_steps() if step.state in ("FAILED", "KILLED")
            ]
            assert not unsuccessful, f"the Job is {state}, but its steps {unsuccessful} did not succeed"


def tasks(rows: dict[tuple[str, str], dict[str, Any]], step: StepRow) -> dict[int, Shard]:
    """Every task of a step, from its blocks."""
    found = {}
    for number in range(block_count(step.total)):
        row = rows.get(block_key(step, number), {})
        for at in range(block_size(step.total, number)):
            known = row.get(str(at))
            rest = Shard(state=TaskState.KILLED) if "swept" in row else Shard()
            found[number * 64 + at] = Shard.decode(known) if known else rest
    return found
