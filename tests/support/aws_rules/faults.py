"""Apply AWS's rules to any endpoint, and fail calls on request.

with Faults() as faults:
    faults.fail(service="dynamodb", operation="UpdateItem", nth=2, how="after")
    ...
    assert faults.meter.calls["sqs.SendMessageBatch"] == 1
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from threading import Lock
from typing import Any, Literal, Self
from unittest.mock import patch

from botocore.client import BaseClient
from botocore.exceptions import EndpointConnectionError, ReadTimeoutError
from botocore.response import StreamingBody

from support.aws_rules.call import Call, ProcessKilled
from support.aws_rules.limits import Executions, TransactionConflicts, check_size_limits
from support.aws_rules.meter import Meter
from support.aws_rules.partial_batches import part_of
from support.aws_rules.queues import QueueNames, Receipts, UnreliableDelivery
from support.watch import is_of_aws, is_watched

How = Literal["before", "after", "throttle", "repeat", "partial", "crash"]
"""before: the call is not made. after: it worked, but the answer is lost. throttle: refused. repeat: the
answer was lost and the SDK made the call again. partial: a batch of which only the first half was taken.
crash: the process ends right after the call (a call made by AWS itself fails "after" instead)."""

_THROTTLES = {
    "dynamodb": ("ProvisionedThroughputExceededException", "The level of configured throughput was exceeded"),
    "lambda": ("TooManyRequestsException", "Rate Exceeded."),
    "s3": ("SlowDown", "Please reduce your request rate."),
    "sqs": ("RequestThrottled", "The request was denied due to request throttling."),
}
_THROTTLED = ("ThrottlingException", "Rate exceeded")

Around = Callable[[Call, Callable[[Call], dict[str, Any]]], dict[str, Any]]


@dataclass
class Fault:
    """Calls that match are failed from the `nth` on, `times` times."""

    how: How
    service: str | None = None
    operation: str | None = None
    nth: int = 1
    times: int = 1
    when: Callable[[Call], bool] = lambda call: True
    seen: int = 0
    hits: int = 0

    def takes(self, call: Call) -> bool:
        """Whether this call is to fail; counts the calls that match."""
        if self.service not in (None, call.service) or self.operation not in (None, call.operation):
            return False
        if not self.when(call):
            return False
        self.seen += 1
        taken = self.nth <= self.seen < self.nth + self.times
        self.hits += taken
        return taken

    def __str__(self) -> str:
        return f"{self.service or 'any'}.{self.operation or 'any'} number {self.nth} failing {self.how!r}"


@dataclass
class Faults:
    """While entered, every call of every client of this process goes through it.

    `weigh` also counts write units, at the price of two more reads for each item written."""

    weigh: bool = False
    rules: bool = True
    meter: Meter = field(default_factory=Meter)
    calls: list[Call] = field(default_factory=list)
    receipts: Receipts = field(default_factory=Receipts)
    _planned: list[Fault] = field(default_factory=list)
    _around: list[Around] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)
    _patch: Any = None

    def __enter__(self) -> Self:
        self.meter.weigh = self.weigh
        if self.rules:
            transactions, executions, names = TransactionConflicts(), Executions(), QueueNames()
            self._around += [transactions.around, executions.around, names.around, self.receipts.around]
        original = BaseClient._make_api_call  # type: ignore[attr-defined]

        def make_api_call(client: BaseClient, operation: str, params: dict[str, Any]) -> dict[str, Any]:
            if not is_watched(client):
                return original(client, operation, params)  # type: ignore[no-any-return]
            return self._watched(Call(client, operation, params, original))

        self._patch = patch.object(BaseClient, "_make_api_call", make_api_call)
        self._patch.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._patch.stop()
        self._around.clear()

    def fail(
        self,
        service: str | None = None,
        operation: str | None = None,
        nth: int = 1,
        how: How = "before",
        times: int = 1,
        when: Callable[[Call], bool] = lambda call: True,
    ) -> Fault:
        """Plan a failure; its `hits` counts how often it occurred."""
        fault = Fault(how, service, operation, nth, times, when)
        self._planned.append(fault)
        return fault

    def clear_faults(self) -> None:
        """Remove all planned failures."""
        with self._lock:
            self._planned.clear()

    def sometimes(
        self, rate: float, how: How = "throttle", service: str | None = None, seed: int = 0
    ) -> Fault:
        """Fail this share of the calls, reproducibly for a given seed and order."""
        random = Random(seed)
        return self.fail(service, how=how, times=10**9, when=lambda call: random.random() < rate)

    def unreliable_queues(
        self, seed: int = 0, duplicates: float = 0.3, shuffled: bool = True, partial: bool = True
    ) -> None:
        """From now on, receives return some messages twice, out of order, and fewer than requested."""
        self.add_rule(UnreliableDelivery(Random(seed), duplicates, shuffled, partial).around)

    def add_rule(self, around: Around) -> None:
        """Pass each call to `around`, with a function that makes it."""
        self._around.append(around)

    def _watched(self, call: Call) -> dict[str, Any]:
        self.meter.count(call)
        with self._lock:
            self.calls.append(call)
            faults = [fault for fault in self._planned if fault.takes(call)]
        if not faults:
            return self._make(call)
        return self._failing(call, faults[0].how)

    def _failing(self, call: Call, how: How) -> dict[str, Any]:
        match how:
            case "before":
                raise _unreachable(call)
            case "throttle":
                raise call.refused(*_THROTTLES.get(call.service, _THROTTLED))
            case "partial":
                taken, finish = part_of(call)
                return finish(self._make(taken))
        answer = self._make(call)
        _close_body(answer)
        match how:
            case "crash" if not is_of_aws(call.client):
                raise ProcessKilled(call.name)
            case "after" | "crash":
                raise _no_answer(call)
            case "repeat":
                answer = self._make(call)
        return answer

    def _make(self, call: Call) -> dict[str, Any]:
        if self.rules:
            check_size_limits(call)
        return self.meter.weighing(call, self._through(list(self._around)))

    def _through(self, around: Sequence[Around]) -> Callable[[Call], dict[str, Any]]:
        if not around:
            return Call.make
        inner = self._through(around[:-1])
        return lambda call: around[-1](call, inner)


def _close_body(answer: dict[str, Any]) -> None:
    """Close a response body that is not read, to return its connection."""
    for value in answer.values():
        if isinstance(value, StreamingBody):
            value.close()


def _unreachable(call: Call) -> Exception:
    if is_of_aws(call.client):
        return call.refused("SdkClientException", "Unable to execute HTTP request")
    return EndpointConnectionError(endpoint_url=call.client.meta.endpoint_url)


def _no_answer(call: Call) -> Exception:
    if is_of_aws(call.client):
        return call.refused("SdkClientException", "Read timed out")
    return ReadTimeoutError(endpoint_url=call.client.meta.endpoint_url)


@dataclass
class Rerun:
    """One run of a scenario, in which one call fails; in the first, none does."""

    fault: Fault | None = None
    faults: Faults = field(default_factory=Faults)

    @contextmanager
    def armed(self) -> Iterator[Faults]:
        """Enumerate and fail only the calls made in this block."""
        with self.faults:
            if self.fault is not None:
                self.faults._planned.append(self.fault)
            yield self.faults

    @property
    def hit(self) -> bool:
        return self.fault is not None and self.fault.hits > 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: object
    ) -> None:
        if problem is not None:
            problem.add_note(f"in the run with {self.fault or 'no fault at all'}")


def everywhere_once(
    ways: Sequence[How] = ("before", "after"), only: Callable[[Call], bool] = lambda call: True
) -> Iterator[Rerun]:
    """Run a scenario once for each of its calls, and fail that call.

    for run in everywhere_once():
        with run, moto_cloud() as cloud:
            prepare(cloud)
            with run.armed():
                scenario(cloud)
            check(cloud)
    """
    first = Rerun()
    yield first
    if not first.faults.calls:
        raise ValueError("the scenario made no AWS call within `with run.armed()`")
    numbers: Counter[str] = Counter()
    for call in first.faults.calls:
        numbers[call.name] += 1
        if only(call):
            for how in ways:
                yield Rerun(Fault(how, call.service, call.operation, numbers[call.name]))
