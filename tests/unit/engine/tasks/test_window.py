"""The window limits the queued and running tasks, and every task is sent eventually."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.engine.tasks import window as task_window
from shardmill.model.blocks import Block, Shard, block_count, block_size
from shardmill.model.states import StepState, TaskState
from shardmill.store.rows import StepRow


class FakeStep:
    """A step whose messages and tasks a test changes one by one."""

    def __init__(self, total: int, window: int, ended: Iterable[int]) -> None:
        self.step = StepRow("j", 1, 0, "a", StepState.RUNNING, "a", "t", 0, total=total, window=window)
        self.states = dict.fromkeys(range(total), TaskState.READY) | dict.fromkeys(ended, TaskState.SUCCESS)
        self.mill: Any = SimpleNamespace(shards=self)
        self.sent: set[int] = set()
        self.reads: list[int] = []
        self.send_open()

    def blocks(self, _: StepRow, numbers: Iterable[int]) -> dict[int, Block]:
        wanted = list(numbers)
        self.reads.append(len(wanted))
        return {number: self._block(number) for number in wanted}

    def _block(self, number: int) -> Block:
        size = block_size(self.step.total, number)
        ranks = range(number * 64, number * 64 + size)
        return Block(number, size, {rank % 64: Shard(self.states[rank], 1) for rank in ranks})

    def send_open(self) -> None:
        listed = map(self._block, range(block_count(self.step.total)))
        found = {block.number: block for block in listed if not block.finished}
        self.step = self.step.evolve(open=set(map(str, found)))
        self.sent = set(task_window.sendable(self.step, found))

    def of(self, state: TaskState) -> set[int]:
        return {rank for rank, each in self.states.items() if each is state}

    @property
    def alive(self) -> set[int]:
        return (self.sent & self.of(TaskState.READY)) | self.of(TaskState.RUNNING)

    @property
    def surplus(self) -> set[int]:
        """Running tasks behind a task of the same line that has not ended."""
        unended = self.of(TaskState.READY) | self.of(TaskState.RUNNING)
        return {
            rank
            for rank in self.of(TaskState.RUNNING)
            if any(other in unended for other in range(rank % self.step.window, rank, self.step.window))
        }

    def receive(self, rank: int) -> None:
        if self.states[rank] is TaskState.READY:
            self.states[rank] = TaskState.RUNNING
        elif self.states[rank].ended:
            self.sent.remove(rank)
            self.sent.update(task_window.next_after(self.mill, self.step, [rank]))

    def end(self, rank: int) -> None:
        self.states[rank] = TaskState.SUCCESS
        self.sent.discard(rank)
        if self.step.uneven:
            self.sent.update(task_window.next_after(self.mill, self.step, [rank]))
        elif (following := task_window.next_in_line(self.step, rank)) is not None:
            self.sent.add(following)

    def change(self, window: int) -> None:
        self.step = self.step.evolve(window=window, uneven=True)
        self.send_open()


@settings(max_examples=200)
@given(st.data())
def test_the_window_holds_through_changes_and_every_task_ends(data: st.DataObject) -> None:
    total = data.draw(st.integers(1, 150))
    ended = data.draw(st.sets(st.integers(0, total - 1)))
    fake = FakeStep(total, data.draw(st.integers(1, total)), ended)
    for _ in range(data.draw(st.integers(0, 60))):
        running, sent = sorted(fake.of(TaskState.RUNNING)), sorted(fake.sent)
        action = data.draw(st.sampled_from(["receive", "receive", "end", "end", "change"]))
        if action == "receive" and sent:
            fake.receive(data.draw(st.sampled_from(sent)))
        elif action == "end" and running:
            fake.end(data.draw(st.sampled_from(running)))
        elif action == "change":
            fake.change(data.draw(st.integers(1, total)))
        assert len(fake.alive) <= fake.step.window + len(fake.surplus)
    while fake.sent or fake.of(TaskState.RUNNING):
        for rank in sorted(fake.sent):
            fake.receive(rank)
        for rank in sorted(fake.of(TaskState.RUNNING)):
            fake.end(rank)
        assert len(fake.alive) <= fake.step.window
    assert not fake.of(TaskState.READY)


@given(st.integers(1, 400), st.data())
def test_blocks_for_which_no_message_was_sent_are_not_listed(total: int, data: st.DataObject) -> None:
    window = data.draw(st.integers(1, total))
    numbers = range(block_count(total))
    untouched = data.draw(st.sets(st.sampled_from(numbers)))
    step = FakeStep(total, window, ()).step
    expected = {
        number
        for number in untouched
        for rank in range(number * 64, number * 64 + 64)
        if rank < window or (rank - window) // 64 not in untouched
    }
    touched = set(numbers) - untouched
    assert {each for each in untouched if task_window.possibly_sent(step, each, touched)} == expected
    part = range(data.draw(st.sampled_from(numbers)), numbers.stop)
    known = touched & {*task_window.blocks_before(step, part), *part}
    found = {each for each in untouched if each in part and task_window.possibly_sent(step, each, known)}
    assert found == expected & set(part)


@settings(max_examples=50)
@given(st.data())
def test_the_first_open_tasks_of_all_lines_are_found_range_by_range(data: st.DataObject) -> None:
    total = data.draw(st.integers(1, 700))
    ended = data.draw(st.sets(st.integers(0, total - 1)))
    fake = FakeStep(total, data.draw(st.integers(1, total)), ended)
    size = data.draw(st.integers(1, total))
    ranges = [range(at, min(at + size, total)) for at in range(0, fake.step.window, size)]
    found = [rank for each in ranges for rank in task_window.first_open(fake.mill, fake.step, each)]
    assert len(found) == len(set(found))
    assert set(found) == fake.sent


def test_each_range_of_a_rerun_reads_only_its_own_blocks() -> None:
    total, window = 16_000, 4_000
    fake = FakeStep(total, window, ended=[rank for rank in range(total) if rank % 64])
    blocks = block_count(total)
    for at in range(0, window, 1_000):
        task_window.first_open(fake.mill, fake.step, range(at, at + 1_000))
    assert sum(fake.reads) <= 1.1 * blocks
    assert len(fake.reads) <= 4
