"""Blocks and sets: every shard is in exactly one block, rows stay small, and DynamoDB's limits hold."""

from hypothesis import given
from hypothesis import strategies as st

from shardmill.model import blocks
from shardmill.model.blocks import Block, Shard, StoredShards
from shardmill.model.states import TaskState
from shardmill.store.tasks import keys as task_keys

totals = st.integers(1, blocks.MAX_SHARDS)
shards = st.builds(
    Shard,
    state=st.sampled_from([state for state in TaskState if state is not TaskState.WAITING]),
    attempt=st.integers(0, 10**5),
    failures=st.integers(0, 1000),
    losses=st.integers(0, 1000),
    rejections=st.integers(0, 1000),
    worker=st.sampled_from(["", "k3f9q2ab.1", "lambda.x9"]),
    time=st.integers(0, 4 * 10**12),
    span=st.integers(0, 10**10),
    leased=st.integers(0, 4 * 10**12),
    ended=st.integers(0, 4 * 10**12),
)


@given(shards)
def test_a_shard_is_decoded_unchanged(shard: Shard) -> None:
    assert Shard.decode(shard.encode()) == shard


@given(totals)
def test_blocks_and_sets_cover_every_shard_exactly_once(total: int) -> None:
    count = blocks.block_count(total)
    assert sum(blocks.block_size(total, number) for number in (0, count - 1)) <= total or count == 1
    assert (count - 1) * blocks.BLOCK_SIZE + blocks.block_size(total, count - 1) == total
    members = [number for s in range(blocks.set_count(total)) for number in blocks.blocks_of_set(total, s)]
    assert members == list(range(count))
    assert blocks.block_of(total - 1) == count - 1


@given(totals)
def test_sets_have_at_most_256_members_on_both_levels(total: int) -> None:
    assert all(
        len(blocks.blocks_of_set(total, number)) <= blocks.SET_SIZE
        for number in range(blocks.set_count(total))
    )
    first_level = blocks.set_count(total) if blocks.two_levels(total) else blocks.block_count(total)
    assert first_level <= blocks.SET_SIZE


@given(st.integers(0, blocks.MAX_SHARDS))
def test_ranges_cover_the_window_once(count: int) -> None:
    cut = blocks.ranges(count)
    assert [rank for part in cut for rank in (part["from"], part["to"])] == [
        edge for at in range(0, count, blocks.RANGE_SIZE) for edge in (at, min(at + blocks.RANGE_SIZE, count))
    ]


def test_a_million_shards_stay_within_the_quotas() -> None:
    total = blocks.MAX_SHARDS
    assert blocks.block_count(total) == 15_625
    assert blocks.set_count(total) == 62
    history = 7 * len(blocks.ranges(total)) + 50
    assert history < 25_000
    import json

    state = json.dumps({"ranges": blocks.ranges(total), "sets": list(range(blocks.set_count(total)))})
    assert len(state) * 3 < 256_000
    assert len(task_keys.block("x" * 36, 1, 1999, 15_624)["pk"]) < 100


def test_a_full_block_of_ended_tasks_costs_two_write_units() -> None:
    ended = Shard(TaskState.SUCCESS, attempt=1, worker="k3f9q2ab.1", time=1_800_000_000_000, span=30_000)
    key = task_keys.block("c779a7f7-953d-4079-8388-591ee2065bad", 1, 12, 15_624)
    item = {**key, **{str(slot): ended.encode() for slot in range(blocks.BLOCK_SIZE)}}
    assert sum(len(name) + len(value) for name, value in item.items()) <= 2048


@given(st.integers(1, 64), st.dictionaries(st.integers(0, 63), shards), st.booleans())
def test_a_block_counts_every_shard_once(size: int, known: dict[int, Shard], swept: bool) -> None:
    block = Block(3, size, {slot: shard for slot, shard in known.items() if slot < size}, swept)
    counts = block.counts()
    assert sum(counts.values()) == size
    assert block.finished == all(state.ended for state in counts)


@given(st.integers(1, 64), st.dictionaries(st.integers(0, 63), shards), st.booleans())
def test_a_stored_block_equals_the_one_that_was_written(
    size: int, known: dict[int, Shard], swept: bool
) -> None:
    written = Block(3, size, {slot: shard for slot, shard in known.items() if slot < size}, swept)
    entries = {slot: shard.encode() for slot, shard in written.shards.items()}
    stored = Block(3, size, StoredShards(entries), swept)
    assert stored == written
    assert list(stored.items()) == list(written.items())
    assert list(stored.touched()) == list(written.touched())
    assert (stored.finished, stored.counts()) == (written.finished, written.counts())
    assert (stored.last_end(), stored.compute_ms()) == (written.last_end(), written.compute_ms())
    assert all((slot in stored.shards) == (slot in written.shards) for slot in range(64))
