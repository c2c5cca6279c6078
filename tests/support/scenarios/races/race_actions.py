"""The actions of a race: of workers, of state machines and ticks, and of users.

Each takes a target (a worker, step or execution) and a variant (an amount or a choice); both wrap around.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from shardmill.engine.control import change, delete, force, rerun, suspend
from shardmill.engine.repair import end_failed_execution
from shardmill.engine.running import kill
from shardmill.engine.task_id import parse_task_id
from shardmill.engine.tick import tick
from shardmill.engine.views import jobs, tasks
from shardmill.model.states import JobState, StepState, TaskState
from shardmill.model.worker import Lease
from shardmill.store.rows import JobRow, StepRow
from support.aws_rules.call import ProcessKilled
from support.moto.step_functions import Execution
from support.scenarios.races.race_environment import ID, JOB, ME, TRIGGER, RaceEnvironment, RaceWorker

MOST_THROTTLES = 4
_FAILED = ("FAILED", "ABORTED")


class RaceActions(RaceEnvironment):
    # workers

    def _worker(self, target: int) -> RaceWorker:
        return self.workers[target % len(self.workers)]

    @contextmanager
    def _restarted_if_killed(self, worker: RaceWorker) -> Iterator[None]:
        """Replace a worker whose process ends by another with the same name."""
        try:
            yield
        except ProcessKilled:
            self._restart(worker)
            raise

    def _restart(self, worker: RaceWorker) -> None:
        worker.held.clear()
        worker.manual = self.interrupter.act(lambda: self._join(worker.name)).manual

    def do_lease(self, target: int, variant: int) -> str:
        worker = self._worker(target)
        acknowledged = set(self.acknowledged_kills)
        with self._restarted_if_killed(worker):
            leases = worker.manual.take(min(variant + 1, 10))
        for lease in leases:
            key = _key(lease)
            grant = (lease.task_id, lease.run, lease.attempt)
            assert grant not in self.leased_attempts, f"attempt {grant} was leased twice"
            self.leased_attempts.add(grant)
            assert (worker.name, *key) not in acknowledged, (
                f"{worker.name} leased {grant} after it acknowledged the kill"
            )
            worker.held[lease.task_id, lease.attempt] = lease
            self.all_leases.append((worker.name, lease))
        return f"{[(lease.task_id[-3:], lease.attempt) for lease in leases]}"

    def do_success(self, target: int, variant: int) -> str:
        return self._report(target, variant, "success")

    def do_fail(self, target: int, variant: int) -> str:
        return self._report(target, variant, "failed")

    def do_fail_permanently(self, target: int, variant: int) -> str:
        return self._report(target, variant, "failed-permanent")

    def _report(self, target: int, variant: int, outcome: str) -> str:
        """Report one held task, or all if `variant` is 0."""
        worker = self._worker(target)
        held = list(worker.held.values())
        leases = held if not variant else held[variant % len(held) :][:1] if held else []
        return self._send_report(worker, leases, outcome)

    def _send_report(self, worker: RaceWorker, leases: list[Lease], outcome: str, **more: Any) -> str:
        with self._restarted_if_killed(worker):
            reported = worker.manual.report(leases, outcome, **more)
        for lease in leases:
            worker.held.pop((lease.task_id, lease.attempt), None)
        return f"{[(each.task_id[-3:], each.attempt, each.status, each.state) for each in reported]}"

    def do_report_late(self, target: int, variant: int) -> str:
        """Report an attempt that this worker, or an earlier one with its name, held."""
        if not self.all_leases:
            return "none"
        name, lease = self.all_leases[-1 - variant % len(self.all_leases)]
        [worker] = [worker for worker in self.workers if worker.name == name]
        return self._send_report(worker, [lease], "failed" if target % 2 else "success")

    def do_heartbeat(self, target: int, variant: int) -> str:
        """Send a heartbeat; stop dropped tasks at once, and report that unless `variant` is odd."""
        worker = self._worker(target)
        leases = list(worker.held.values())
        with self._restarted_if_killed(worker):
            drop = set(worker.manual.beat(leases))
        dropped = [lease for lease in leases if lease.task_id in drop]
        for lease in dropped:
            worker.held.pop((lease.task_id, lease.attempt), None)
            if self._is_killed(_key(lease)):
                self.acknowledged_kills.add((worker.name, *_key(lease)))
        if dropped and not variant % 2:
            return f"{drop} {self._send_report(worker, dropped, 'failed', reason='discarded')}"
        return f"{drop}"

    def _is_killed(self, key: tuple[str, int, int]) -> bool:
        job, step = self.job(), self.steps().get(key[1:])
        if not job or not step:
            return True
        return (job.run == key[1] and job.state is JobState.KILLED) or step.kill or step.state.ended

    def do_restart_worker(self, target: int, variant: int) -> str:
        self._restart(self._worker(target))
        return ""

    # state machines and ticks

    def do_run_state(self, target: int, variant: int) -> str:
        """Run one state of one execution."""
        runnable = self.state_machines.runnable()
        if not runnable:
            return "none"
        execution = runnable[target % len(runnable)]
        return self._step(execution)

    def _step(self, execution: Execution) -> str:
        before = execution.state
        self.state_machines.step(execution)
        return f"{execution.name[37:]} {before} -> {execution.state} {execution.status}"

    def do_run_executions(self, target: int, variant: int) -> str:
        """Run every execution as far as possible."""
        steps: list[str] = []
        for _ in range(400):
            runnable = self.state_machines.runnable()
            if not runnable:
                return " ".join(steps)
            steps.append(self._step(runnable[0]))
        raise AssertionError(f"the state machines do not come to an end: {steps[-6:]}")

    def do_tick(self, target: int, variant: int) -> str:
        counts = tick(self.process(), self.clock(), lambda: ID.replace("1", "2"))
        assert not counts["failed"] or not self.job(), "a tick failed to repair a Job"
        return f"{counts['looked']}"

    def do_throttle(self, target: int, variant: int) -> str:
        """Refuse the next Lambda invocations, fewer than the state machines retry."""
        self.throttles = 1 + variant % MOST_THROTTLES
        return f"{self.throttles}"

    def do_deliver_failures(self, target: int, variant: int) -> str:
        """Deliver the events of failed executions."""
        names = []
        for execution in list(self.state_machines.executions.values()):
            if execution.status in _FAILED and execution.arn not in self.delivered_failures:
                end_failed_execution(self.process(), execution.name, f"it {execution.status}", self.clock())
                self.delivered_failures.add(execution.arn)
                names.append(execution.name[37:])
        return " ".join(names)

    # users

    def _job(self) -> JobRow:
        return jobs.read_job(self.mill, JOB, TRIGGER)

    def _step_of(self, job: JobRow, variant: int) -> StepRow:
        names = [step.name for step in self.current_steps()]
        return jobs.read_step(self.mill, job, names[variant % len(names)] if names else "none")[0]

    def do_suspend(self, target: int, variant: int) -> str:
        job = suspend.suspend(self.mill, self._job(), ME, "", self.clock(), let_finish=bool(variant % 2))
        return job.state

    def do_resume(self, target: int, variant: int) -> str:
        return suspend.resume(self.mill, self._job(), ME, "", self.clock()).state

    def do_kill(self, target: int, variant: int) -> str:
        return kill.kill(self.mill, self._job(), ME.name, "", self.clock()).state

    def do_kill_step(self, target: int, variant: int) -> str:
        job = self._job()
        step = self._step_of(job, target)
        kill.kill_step(self.mill, job, step, ME.name, "", self.clock())
        return step.name

    def do_kill_task(self, target: int, variant: int) -> str:
        job = self._job()
        step = self._step_of(job, target)
        rank = tasks.rank_of(step, variant % max(1, step.total))
        kill.kill_task(self.mill, job, step, rank, ME.name, "", self.clock())
        return f"{step.name} {rank}"

    def do_force(self, target: int, variant: int) -> str:
        state = (JobState.SUCCESS, JobState.FAILED)[variant % 2]
        return force.force_job(self.mill, self._job(), state, ME, "", self.clock()).state

    def do_force_step(self, target: int, variant: int) -> str:
        job = self._job()
        step = self._step_of(job, target)
        state = (StepState.SUCCESS, StepState.FAILED)[variant % 2]
        force.force_step(self.mill, job, step, state, ME, "", self.clock())
        return f"{step.name} {state}"

    def do_force_task(self, target: int, variant: int) -> str:
        job = self._job()
        step = self._step_of(job, target)
        rank = tasks.rank_of(step, variant // 2 % max(1, step.total))
        state = (TaskState.SUCCESS, TaskState.FAILED)[variant % 2]
        force.force_task(self.mill, job, step, rank, state, ME, "", self.clock())
        return f"{step.name} {rank} {state}"

    def do_rerun(self, target: int, variant: int) -> str:
        """Rerun failed tasks, everything, a step, tasks of a step, or a step and its dependents."""
        job = self._job()
        scope = rerun.Scope()
        if variant % 5 == 1:
            scope = rerun.Scope(everything=True)
        elif variant % 5 > 1:
            step = self._step_of(job, target)
            ranks = (tasks.rank_of(step, 0),) if variant % 5 == 3 else ()
            scope = rerun.Scope(steps=(step.name,), ranks=ranks, downstream=variant % 5 == 4)
        job = rerun.rerun(self.mill, job, scope, ME, "", self.clock())
        return f"run {job.run}"

    def do_priority(self, target: int, variant: int) -> str:
        priority = (1, 20, -5, 2)[variant % 4]
        change.change(self.mill, self._job(), {"priority": priority}, ME, self.clock())
        return f"{priority}"

    def do_delete(self, target: int, variant: int) -> str:
        delete.delete(self.mill, self._job(), ME.name, self.clock(), full=bool(variant % 2))
        return ""


def _key(lease: Lease) -> tuple[str, int, int]:
    place = parse_task_id(lease.task_id)
    assert place is not None
    return place[0], lease.run, place[1]
