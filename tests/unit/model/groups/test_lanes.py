"""The lanes of a group: one queue for every priority in use, polled in the order of priorities."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmill.model.groups.lanes import BANDS, MAX_LANES, UNUSED_MS, Lane, LaneTable

PRIORITIES = st.lists(st.integers(-(10**9), 10**9), max_size=2 * MAX_LANES)
NEW = LaneTable.of({}, MAX_LANES)


def used(*priorities: int, table: LaneTable = NEW) -> LaneTable:
    """The table after senders have used these priorities, one after the other."""
    for priority in priorities:
        table = table.with_priority(priority)
    return table


def test_a_new_group_has_one_lane_and_polls_its_bands_in_order() -> None:
    assert NEW.queue_of(1) == BANDS.index("normal")
    assert NEW.order() == [(10, 0), (1, 1), (-1, 2)]
    assert not NEW.mixed


def test_the_first_priorities_get_queues_that_every_worker_polls() -> None:
    table = used(9, 5)
    assert {table.queue_of(priority) for priority in (1, 5, 9)} == {0, 1, 2}
    assert table.order()[:3] == [(9, table.lanes[9].queue), (5, table.lanes[5].queue), (1, 1)]


@pytest.mark.parametrize("priorities", [(), (9,), (9, 5), (9, 5, 3), range(2, MAX_LANES)])
def test_the_queue_that_the_next_priority_gets_is_polled_after_all_others(priorities: list[int]) -> None:
    table = used(*priorities)
    after = table.with_priority(-7)
    queue = after.lanes[-7].queue
    assert queue in {each for _, each in table.order()}
    assert queue in table.without_lane()
    assert queue not in after.without_lane()
    if len(priorities) >= len(BANDS) - 1:
        assert table.order()[-1][1] == queue


@given(PRIORITIES)
def test_priorities_in_use_have_queues_of_their_own_in_order(priorities: list[int]) -> None:
    table = used(*priorities)
    assert len(table.lanes) == min(MAX_LANES, len({1, *priorities}))
    assert len({lane.queue for lane in table.lanes.values()}) == len(table.lanes)
    place = {queue: at for at, (_, queue) in enumerate(table.order())}
    listed = sorted({1, *priorities}, reverse=True)
    places = [place[queue] for priority in listed if (queue := table.queue_of(priority)) is not None]
    assert len(places) == len(listed)
    assert set(range(len(BANDS))) <= place.keys()
    own = [place[table.lanes[priority].queue] for priority in listed if priority in table.lanes]
    assert own == sorted(own)


@given(PRIORITIES, st.integers(-100, 100))
def test_a_priority_without_a_queue_never_goes_before_a_higher_one(priorities: list[int], more: int) -> None:
    table = used(*priorities, *range(1000, 1000 + MAX_LANES))
    assert len(table.lanes) == MAX_LANES
    queue = table.queue_of(more)
    shared = next(priority for priority, lane in table.lanes.items() if lane.queue == queue)
    assert shared <= more or shared == min(table.lanes)
    assert table.with_priority(2_000) == table


@given(PRIORITIES)
def test_a_table_is_stored_and_read_unchanged(priorities: list[int]) -> None:
    table = used(*priorities).after_check({5, *priorities[::2]}, 7)
    assert LaneTable.of(table.stored(), MAX_LANES) == table


def test_a_lane_is_removed_after_it_was_marked_as_unused_for_minutes() -> None:
    table = used(5, 7)
    marked = table.after_check({5}, 1_000)
    assert marked.lanes[5].unused_since == 1_000
    assert marked.order() == table.order()  # workers poll it as before
    assert marked.queue_of(5) is None  # a sender has to claim it again
    assert marked.after_check({5}, 999 + UNUSED_MS) == marked
    assert marked.after_check({5}, 1_000 + UNUSED_MS).lanes.keys() == {1, 7}


def test_a_lane_that_is_used_again_is_kept() -> None:
    marked = used(5).after_check({5}, 1_000)
    assert marked.with_priority(5).after_check({5}, 2_000_000).lanes[5] == Lane(0, 2_000_000)
    assert marked.after_check(set(), 2_000_000).lanes[5] == Lane(0)


@given(PRIORITIES.filter(bool))
def test_one_lane_is_left_when_none_is_used(priorities: list[int]) -> None:
    table = used(*priorities)
    everything = set(table.lanes)
    left = table.after_check(everything, 1).after_check(everything, 1 + UNUSED_MS)
    assert left.lanes.keys() == {1}
    assert not left.mixed


@given(PRIORITIES, PRIORITIES)
def test_a_removed_lane_leaves_its_queue_to_another_priority(old: list[int], new: list[int]) -> None:
    table = used(*old)
    unused = set(old) - set(new)
    table = table.after_check(unused, 1).after_check(unused, 1 + UNUSED_MS)
    assert all(used(*new, table=table).queue_of(priority) is not None for priority in new)


def test_a_group_of_an_earlier_release_has_three_lanes() -> None:
    table = used(5, 7, 9, table=LaneTable.of({}, len(BANDS)))
    assert table.lanes.keys() == {1, 5, 7}
    assert table.queue_of(9) == table.queue_of(7)


def test_lanes_in_use_are_ordered_by_priority_and_the_first_one_is_the_usual() -> None:
    table = used(5, -3, 9, table=NEW)
    assert [priority for priority, _ in table.in_use()] == [9, 5, 1, -3]
    assert dict(table.in_use()) == {priority: lane.queue for priority, lane in table.lanes.items()}
    assert table.usual_priority == 1
