"""Worker groups, their large steps, and the tasks that none of their workers can run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from shardmill.model.groups.lanes import LaneTable
from shardmill.store import group_keys, indexes, keys
from shardmill.store.codec import to_json
from shardmill.store.rows import GroupRow, StepRow
from shardmill.store.table import ConditionFailed, Table
from shardmill.store.update import Update
from shardmill.store.workers import KEEP_WORKER_SECONDS

_MAX_UNMATCHED = 1_000


@dataclass(frozen=True, slots=True)
class Unmatched:
    """Tasks of a step that no live worker of a group can run, and the program that they need."""

    group: str
    step: tuple[str, int, int]
    need: str
    ranks: set[int]


class Groups:
    def __init__(self, table: Table) -> None:
        self._table = table

    def get(self, name: str) -> GroupRow | None:
        item = self._table.get(group_keys.group(name)) if name != group_keys.EVERY_GROUP else None
        return GroupRow.from_item(item) if item else None

    def create(self, group: GroupRow) -> bool:
        try:
            self._table.put_new(
                {
                    **group_keys.group(group.name),
                    **group.to_item(),
                    **indexes.listed(indexes.GROUPS, group.name),
                }
            )
        except ConditionFailed:
            return False
        return True

    def change(
        self, name: str, *, lease_seconds: int, bound: Mapping[str, Sequence[int]] | None, now: int
    ) -> GroupRow | None:
        """Change a group; `bound`: its types with the times of their bindings, None to keep them."""
        update = Update(group_keys.group(name)).set(lease_seconds=lease_seconds, update_time=now)
        if bound is not None:
            update.set(types=list(bound), bound=to_json(bound))
        try:
            return GroupRow.from_item(self._table.update(update.if_exists("name"), returns="ALL_NEW"))
        except ConditionFailed:
            return None

    def set_queues(self, group: GroupRow, queues: Sequence[str]) -> GroupRow | None:
        """Replace the queues of a group; None if they changed since it was read."""
        update = Update(group_keys.group(group.name)).set(queues=list(queues))
        try:
            update.if_equal(queues=list(group.queues), generation=group.generation)
            return GroupRow.from_item(self._table.update(update, returns="ALL_NEW"))
        except ConditionFailed:
            return None

    def set_order_queues(self, group: GroupRow, queues: Sequence[str]) -> GroupRow | None:
        """Set the queues by which Lambda groups order their tasks; None if the group does not exist."""
        update = Update(group_keys.group(group.name)).set(order_queues=list(queues)).if_exists("name")
        try:
            return GroupRow.from_item(self._table.update(update, returns="ALL_NEW"))
        except ConditionFailed:
            return None

    def change_lanes(self, group: GroupRow, table: LaneTable, *, now: int = 0) -> GroupRow | None:
        """Change the lanes of a group unless they changed since it was read.

        `now` is noted if the group has several lanes from then on. Returns the group as it is then; None if
        it does not exist.
        """
        update = Update(group_keys.group(group.name)).set(lanes=to_json(table.stored())).if_exists("name")
        if now and table.mixed and not group.lane_table.mixed:
            update.set(mixed_since=now)
        try:
            item = self._table.update(
                update.if_new_or_equal("lanes", to_json(group.lanes)), returns="ALL_NEW"
            )
        except ConditionFailed as changed:
            return GroupRow.from_item(changed.old) if changed.old else None
        return GroupRow.from_item(item)

    def begin_lane_check(self, group: GroupRow, *, now: int) -> GroupRow | None:
        """Note that the lanes of a group are checked; None if another check began since it was read."""
        update = Update(group_keys.group(group.name)).set(lanes_checked=now).if_exists("name")
        update.if_new_or_equal("lanes_checked", group.lanes_checked)
        try:
            return GroupRow.from_item(self._table.update(update, returns="ALL_NEW"))
        except ConditionFailed:
            return None

    def suspend(self, name: str, why: str | None) -> GroupRow | None:
        """Suspend a group, or resume it if `why` is None; returns None if the group does not exist."""
        update = Update(group_keys.group(name)).set(suspended=why).if_exists("name")
        try:
            return GroupRow.from_item(self._table.update(update, returns="ALL_NEW"))
        except ConditionFailed:
            return None

    def every_group(self) -> GroupRow:
        """The row that represents all groups; it has no queues."""
        item = self._table.get(group_keys.group(group_keys.EVERY_GROUP)) or {}
        return GroupRow(group_keys.EVERY_GROUP, "", 0, [], 0, 0, 0, suspended=item.get("suspended", ""))

    def suspend_every_group(self, why: str | None) -> None:
        self._table.update(Update(group_keys.group(group_keys.EVERY_GROUP)).set(suspended=why))

    def delete(self, name: str) -> None:
        """Delete a group and every row in its partition."""
        self._table.delete(group_keys.group(name))
        partition = keys.partition_of(group_keys.group(name))
        items = self._table.query(partition, only=keys.KEY, consistent=True)
        self._table.batch_delete([keys.key_of(item) for item in items])

    def next_generation(self, name: str) -> int:
        answer = self._table.update(Update(keys.group_counter(name)).add(value=1), returns="UPDATED_NEW")
        return int(answer["value"])

    def page(self, *, after: str | None = None, limit: int = 100) -> Iterator[GroupRow]:
        start = {**group_keys.group(after), **indexes.listed(indexes.GROUPS, after)} if after else None
        partition = indexes.all_of(indexes.GROUPS)
        items = indexes.listed_rows(self._table, [partition], indexes.LIST, start=start, limit=limit)
        return map(GroupRow.from_item, items)

    def bound(self) -> dict[str, list[str]]:
        """By step type, the groups that it is bound to; reads all groups."""
        found: dict[str, list[str]] = {}
        for group in self.page():
            for kind in group.types:
                found.setdefault(kind, []).append(group.name)
        return found

    def add_giant(self, name: str, step: keys.StepKey) -> None:
        """Note an open step with so many tasks that the group's other steps should not have to wait for
        them."""
        self._table.batch_put([group_keys.giant(name, step)])

    def remove_giant(self, name: str, step: keys.StepKey) -> None:
        self._table.delete(group_keys.giant(name, step))

    def giants(self, name: str, *, most: int) -> list[keys.StepKey]:
        """Up to `most` of the large open steps of a group."""
        partition = keys.partition_of(group_keys.group(name))
        items = self._table.query(partition, prefix=group_keys.GIANTS, consistent=True, limit=most)
        return [group_keys.parse_giant(item) for item in islice(items, most)]

    def note_unmatched(self, name: str, step: StepRow, ranks: Iterable[int], need: str, *, now: int) -> None:
        """Note tasks that no live worker of a group can run, for one that registers later."""
        key = group_keys.unmatched(name, step.job_id, step.run, step.index)
        update = Update(key).set(
            step=keys.step_reference(step.key), need=need, ttl=now // 1000 + KEEP_WORKER_SECONDS
        )
        update.add(ranks={str(rank) for rank in ranks})
        try:
            self._table.update(update.if_smaller("ranks", _MAX_UNMATCHED))
        except ConditionFailed as full:
            if full.old is None:
                raise

    def unmatched(self, name: str) -> Iterator[Unmatched]:
        partition = keys.partition_of(group_keys.group(name))
        for item in self._table.query(partition, prefix=group_keys.UNMATCHED, consistent=True):
            ranks = {int(rank) for rank in item.get("ranks", ())}
            if ranks:
                yield Unmatched(name, keys.parse_step_reference(item["step"]), item["need"], ranks)

    def clear_unmatched(self, noted: Unmatched) -> None:
        update = Update(group_keys.unmatched(noted.group, *noted.step))
        self._table.update(update.delete("ranks", {str(rank) for rank in noted.ranks}))
