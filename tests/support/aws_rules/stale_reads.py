"""Eventually consistent reads: those of an index, and those of a table without ConsistentRead.

For a moment after a write, such a read returns the item as it was before, or no item. Each item lags on its
own, so a query may return the newest version of one item and an older version of another."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from random import Random
from threading import local
from typing import Any, NamedTuple
from unittest.mock import patch

from moto.dynamodb.models import DynamoDBBackend
from moto.dynamodb.models.dynamo_type import Item
from moto.dynamodb.models.table import Table

from support.aws_rules.call import Call
from support.fidelity.recorder import recorder
from support.moto.items import copy_of_table, store_item

Make = Callable[[Call], dict[str, Any]]
Method = Callable[..., Any]
_WRITES = ("put_item", "update_item", "delete_item")


class Change(NamedTuple):
    at: float
    table: str
    key: tuple[Any, Any]
    before: Item | None


@dataclass
class StaleReads:
    """Changes of the last `within_ms` may be missing from a `share` of the reads that allow it.

    Needs `support.moto.repairs.repaired_moto`. The reads of the test itself are never stale."""

    seed: int = 0
    within_ms: float = 1000
    share: float = 0.5
    clock: Callable[[], float] = lambda: time.time() * 1000
    outdated: int = 0
    """How many outdated versions were visible to reads."""
    _changes: deque[Change] = field(default_factory=deque)
    _transaction: list[Change] | None = None
    _thread: local = field(default_factory=local)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)

    def around(self, call: Call, make: Make) -> dict[str, Any]:
        tables = _tables_read_without_consistency(call)
        if not tables or self.random.random() >= self.share:
            return make(call)
        self._thread.views = dict.fromkeys(tables)
        try:
            with recorder.outdated():
                return make(call)
        finally:
            self._thread.views = {}

    def begin(self, seed: int) -> None:
        """Begin again with other contents of the tables, which the test replaced."""
        self._changes.clear()
        self.random.seed(seed)
        recorder.contents_replaced()

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record changes of moto's items, and show earlier versions to the reads chosen for it."""
        get_table: Method = DynamoDBBackend.get_table
        transact: Method = DynamoDBBackend.transact_write_items

        def lagging_table(backend: DynamoDBBackend, table_name: str) -> Table:
            table: Table = get_table(backend, table_name)
            views: dict[str, Table | None] = getattr(self._thread, "views", {})
            if table_name not in views:
                return table
            view = views[table_name] = views[table_name] or self._earlier(table_name, table)
            return view

        def transact_write_items(backend: DynamoDBBackend, transact_items: Any) -> None:
            self._transaction = []
            try:
                transact(backend, transact_items)
                self._changes.extend(self._transaction)
            finally:
                self._transaction = None

        with ExitStack() as stack:
            for name in _WRITES:
                recorded = self._recorded(getattr(DynamoDBBackend, name))
                stack.enter_context(patch.object(DynamoDBBackend, name, recorded))
            stack.enter_context(patch.object(DynamoDBBackend, "get_table", lagging_table))
            stack.enter_context(patch.object(DynamoDBBackend, "transact_write_items", transact_write_items))
            yield

    def _recorded(self, write: Method) -> Method:
        def record(
            backend: DynamoDBBackend, table_name: str, key: dict[str, Any], *rest: Any, **more: Any
        ) -> Any:
            table = backend.get_table(table_name)
            place = backend.get_keys_value(table, key)
            before = table.get_item(*place)
            answer = write(backend, table_name, key, *rest, **more)
            change = Change(self.clock(), table_name, place, before)
            (self._changes if self._transaction is None else self._transaction).append(change)
            return answer

        return record

    def _earlier(self, name: str, table: Table) -> Table:
        """The table with a random recent version of each item that changed recently."""
        while self._changes and self._changes[0].at < self.clock() - self.within_ms:
            self._changes.popleft()
        versions: defaultdict[tuple[Any, Any], list[Item | None]] = defaultdict(list)
        for change in self._changes:
            if change.table == name:
                versions[change.key].append(change.before)
        view = copy_of_table(table)
        for key, earlier in versions.items():
            chosen = self.random.randint(0, len(earlier))
            if chosen < len(earlier):
                self.outdated += 1
                store_item(view, *key, earlier[chosen])
        return view


def _tables_read_without_consistency(call: Call) -> list[str]:
    if call.service != "dynamodb":
        return []
    match call.operation:
        case "GetItem" | "Query" | "Scan":
            # An index cannot be read consistently.
            return [] if call.params.get("ConsistentRead") else [call.params["TableName"]]
        case "BatchGetItem":
            asked = call.params["RequestItems"].items()
            return [name for name, reads in asked if not reads.get("ConsistentRead")]
    return []


@contextmanager
def stale_reads(add_rule: Callable[[Any], None], **options: Any) -> Iterator[StaleReads]:
    """Apply the rule within the block: `with stale_reads(faults.add_rule, seed=3): ...`."""
    rule = StaleReads(**options)
    with rule.recording():
        add_rule(rule.around)
        yield rule
