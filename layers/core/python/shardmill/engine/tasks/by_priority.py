"""Lease the tasks of Lambda groups by priority.

Lambda polls one queue, in which the messages of all priorities are. An invocation with ten of them may run
ten tasks, but not only those: it polls the order queues, which have a copy of each message, from the
highest priority down. A task is leased with its copy, and the copy is deleted. A message whose task has to
wait for others is released, so that it invokes another runner.

The messages keep the role that they have without copies: each task has its own, which is deleted when the
task has ended. So a copy that is lost, delivered twice or outdated changes only the order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from shardmill.aws.observability import logger
from shardmill.aws.queues import BATCH, Message, Ticket
from shardmill.engine.groups import lanes, matching
from shardmill.engine.groups.matching import WorkerSession
from shardmill.engine.mill import Mill
from shardmill.engine.tasks import bounce, messages
from shardmill.engine.tasks.lease import LeaseBatch, StepKey, is_current, lease, lease_block, steps_of
from shardmill.engine.tasks.messages import seconds_until
from shardmill.engine.tasks.work_item import Receipt
from shardmill.model.blocks import block_of
from shardmill.model.worker import Lease
from shardmill.store.rows import GroupRow, StepRow

UNCOPIED_MS = 60_000
"""How long messages may still be sent without a copy after a group began to have several priorities: senders
cache the lanes for seconds, and the state machine sends the messages of a large step after it was opened."""
_SEARCH_MS = 3_600_000
"""How long messages without a copy may wait in the queue; see `_Invocation._search`."""
_HIDE_SECONDS = 30
_RETRY_SECONDS = 5
_MAX_RECEIVES = 100


def lease_by_priority(
    mill: Mill, session: WorkerSession, received: Sequence[Message], now: int
) -> list[Lease]:
    """Lease as many tasks as messages were received: the waiting tasks of the highest priorities.

    While one priority is in use, these are the tasks of the messages.
    """
    tickets = [ticket for message in received if (ticket := Ticket.decode(message.body))]
    steps = mill.recent_steps.get({ticket.step_key for ticket in tickets}, mill.jobs.steps_by_key, now)
    group = matching.group_rows(mill, [lanes.LAMBDA_GROUP], now).get(lanes.LAMBDA_GROUP)
    for priority in {step.priority for step in steps.values() if not step.state.ended}:
        group = group and lanes.with_lane(mill, group, priority, now=now)
    if not group or not lanes.needs_order(group):
        return lease(mill, session, received, now)
    return _Invocation(mill, session, group, now).lease(received)


class _Invocation:
    """The messages that invoked a runner, and the tasks that it leases."""

    def __init__(self, mill: Mill, session: WorkerSession, group: GroupRow, now: int) -> None:
        self._mill = mill
        self._session = session
        self._group = group
        self._now = now
        self._leases: list[Lease] = []
        self._own: dict[Ticket, Message] = {}
        self._decided: set[Ticket] = set()
        """Tasks that were leased, or could not be. Leasing one again would look like a repeated write."""
        self._steps: dict[StepKey, StepRow] = {}
        self._slots = 0

    def lease(self, received: Sequence[Message]) -> list[Lease]:
        self._slots = len(received)
        try:
            others = self._add(received)
            if others:
                self._leases += lease(self._mill, self._session, others, self._now)
            self._fill()
            self._release()
            lanes.remove_unused(self._mill, [self._group.name], self._now)
        except Exception:
            if not self._leases:
                raise
            logger.exception(
                "failed to lease a part of a batch; its messages become visible again in a few seconds",
                extra={"action": "lease", "leases": len(self._leases)},
            )
            leased = {receipt.handle for task in self._leases if (receipt := Receipt.decode(task.receipt))}
            self._mill.queues.hide((m, _RETRY_SECONDS) for m in received if m.handle not in leased)
        return self._leases

    def _add(self, received: Iterable[Message]) -> list[Message]:
        """Add the messages of tasks to the own ones. Returns the others: checks, void and unreadable ones."""
        tickets = {message: Ticket.decode(message.body) for message in received}
        self._read_steps(ticket for ticket in tickets.values() if ticket)
        others, repeated = [], []
        for message, ticket in tickets.items():
            leased = ticket in self._decided  # with its copy: the message is needed if this worker is lost
            if not ticket or ticket.rank < 0 or leased or not self._is_current(ticket):
                others.append(message)
            elif ticket in self._own:
                repeated.append(message)
            else:
                self._own[ticket] = message
        if repeated:
            self._mill.queues.delete(repeated)
        return others

    def _read_steps(self, tickets: Iterable[Ticket]) -> None:
        self._steps |= steps_of(self._mill, tickets, self._now)

    def _is_current(self, ticket: Ticket) -> bool:
        step = self._steps.get(ticket.step_key)
        return step is not None and is_current(step, ticket)

    @property
    def _free(self) -> int:
        return self._slots - len(self._leases)

    def _fill(self) -> None:
        """Lease tasks from the highest priority down until all slots are taken or no task is left.

        Queues that were empty a moment ago are skipped, so that not every invocation polls all of them:
        the message of a task that was sent meanwhile invokes another runner.
        """
        table, urls = self._group.lane_table, self._group.order_queues
        empty = self._mill.empty_queues.get(urls, lambda _: {}, self._now)
        searched = self._now - self._group.mixed_since > _SEARCH_MS
        for priority, lane in table.in_use():
            if self._free > 0 and priority < table.usual_priority and not searched:
                searched = True
                self._search(priority)
            waiting = [ticket for ticket in self._own if table.queue_of(self._priority(ticket)) == lane]
            self._lease_own([ticket for ticket in waiting if self._lacks_copy(self._own[ticket])])
            if urls[lane] not in empty:
                self._lease_copies(urls[lane])
            self._lease_own([ticket for ticket in waiting if ticket in self._own])

    def _priority(self, ticket: Ticket) -> int:
        return self._steps[ticket.step_key].priority

    def _lacks_copy(self, message: Message) -> bool:
        """Whether a message may have no copy: it was sent before the group had several priorities."""
        return message.sent <= self._group.mixed_since + UNCOPIED_MS

    def _lease_own(self, tickets: Sequence[Ticket]) -> None:
        """Lease tasks of own messages, as far as there are slots."""
        rest = list(tickets)
        while rest and self._free > 0:
            chosen, rest = rest[: self._free], rest[self._free :]
            own = [self._take(ticket) for ticket in chosen]
            self._leases += lease(self._mill, self._session, own, self._now)

    def _take(self, ticket: Ticket) -> Message:
        self._decided.add(ticket)
        return self._own.pop(ticket)

    def _lease_copies(self, queue: str) -> None:
        """Lease tasks of copies until the slots are taken or the queue is empty."""
        for _ in range(_MAX_RECEIVES):
            if self._free <= 0:
                return
            copies = self._mill.queues.receive(queue, most=self._free, wait=0, hide=_HIDE_SECONDS)
            if not copies:
                self._mill.empty_queues.put(queue, True, self._now)
                return
            self._lease_copied(copies)

    def _lease_copied(self, copies: Sequence[Message]) -> None:
        """Lease the tasks of copies that can be leased now, and delete the copies.

        A task whose own message is here is leased with that one. The copies of tasks of a suspended group are
        kept, and those of retries that are due soon: this invocation began before their delay was over.
        """
        tickets = {copy: Ticket.decode(copy.body) for copy in copies}
        self._read_steps(ticket for ticket in tickets.values() if ticket)
        blocks: dict[tuple[StepKey, int], dict[int, Message]] = {}
        waiting: list[tuple[Message, int]] = []
        for copy, ticket in tickets.items():
            if not ticket or ticket in self._decided or not self._is_current(ticket):
                continue
            if self._is_suspended(ticket):
                waiting.append((copy, bounce.delay(copy.receives)))
                continue
            own = self._take(ticket) if ticket in self._own else Message("", "", copy.body)
            self._decided.add(ticket)
            blocks.setdefault((ticket.step_key, block_of(ticket.rank)), {})[ticket.rank] = own
        batch = self._lease_blocks(blocks)
        waiting += [(copy, due) for copy in copies if (due := _due_soon(batch, copy))]
        rest = [message for message in batch.rest or () if message.queue]
        if rest:  # of tasks that run or have ended
            self._leases += lease(self._mill, self._session, rest, self._now)
        kept = {copy for copy, _ in waiting}
        self._mill.queues.delete(copy for copy in copies if copy not in kept)
        if waiting:
            self._mill.queues.hide(waiting)

    def _lease_blocks(self, blocks: Mapping[tuple[StepKey, int], dict[int, Message]]) -> LeaseBatch:
        batch = LeaseBatch(self._session, self._now, leases=self._leases, rest=[])
        for (key, number), ranks in blocks.items():
            lease_block(self._mill, batch, self._steps[key], number, ranks)
        return batch

    def _is_suspended(self, ticket: Ticket) -> bool:
        step, queue = self._steps[ticket.step_key], self._group.queues[0]
        return matching.queue_suspended(self._mill, step, queue, self._now)

    def _search(self, priority: int) -> None:
        """Look in the queue itself for messages without a copy whose tasks go before those of a priority.

        They were sent when the group had one priority. SQS may deliver later ones of a smaller job first.
        """
        for _ in range(_MAX_RECEIVES):
            known = set(self._own)
            received = self._mill.queues.receive(
                self._group.queues[0], most=BATCH, wait=0, hide=_HIDE_SECONDS
            )
            others = self._add(received)
            for ticket in self._own.keys() - known:
                if self._priority(ticket) <= priority or not self._lacks_copy(self._own[ticket]):
                    others.append(self._own.pop(ticket))
            found = sorted(self._own.keys() - known, key=self._priority, reverse=True)
            self._lease_own(found)
            if others:
                self._mill.queues.hide((message, 0) for message in others)
            if not found or self._free <= 0:
                return

    def _release(self) -> None:
        """Release the messages whose tasks wait. One without a copy is sent again, with a copy."""
        lacking = {ticket: message for ticket, message in self._own.items() if self._lacks_copy(message)}
        ranks: dict[StepKey, list[int]] = {}
        for ticket in lacking:
            ranks.setdefault(ticket.step_key, []).append(ticket.rank)
        for key, listed in ranks.items():
            messages.send(self._mill, self._steps[key], listed, self._now)
        if lacking:
            self._mill.queues.delete(lacking.values())
        others = [message for ticket, message in self._own.items() if ticket not in lacking]
        if others:
            self._mill.queues.hide((message, 0) for message in others)
        self._own.clear()


def _due_soon(batch: LeaseBatch, copy: Message) -> int:
    """The seconds until the task of a copy is due, for a copy to keep; otherwise 0.

    With its own message, the task gets another copy. After a long wait, its own message is delivered again.
    """
    seconds = seconds_until(batch.early.get(Message("", "", copy.body), 0), 0)
    return seconds if seconds <= _HIDE_SECONDS else 0
