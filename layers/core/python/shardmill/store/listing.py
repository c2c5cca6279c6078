"""Lists: the rows that an index names, in the order of the index.

The indexes hold keys and little else, so that a change of a row rewrites no entry. A list reads the entries
of a page, then the rows. The jobs are spread over several partitions of an index, which a list merges.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import islice

from shardmill.store import indexes, keys
from shardmill.store.keys import Partition, Range
from shardmill.store.table import Table
from shardmill.store.update import Item

_CHUNK = 100  # the rows of one BatchGetItem


def listed_rows(
    table: Table,
    partitions: Sequence[Partition],
    index: str,
    *,
    limit: int,
    between: Range | None = None,
    newest_first: bool = False,
    start: Item | None = None,
    only: Sequence[str] = (),
) -> Iterator[Item]:
    """The rows of partitions of an index in the order of `ls`, read about `limit` at a time.

    An index lags behind the rows: a row that has left its partition since is left out.
    """
    share = limit if len(partitions) == 1 else limit // len(partitions) + 2
    entries = merge(
        *(
            table.query(
                partition, index=index, between=between, newest_first=newest_first, limit=share, start=start
            )
            for partition in partitions
        ),
        key=lambda entry: str(entry[indexes.LIST_SORT]),
        reverse=newest_first,
    )
    place = partitions[0][0]
    while chunk := list(islice(entries, min(limit, _CHUNK))):
        wanted = (*only, *keys.KEY, place) if only else ()
        rows = table.batch_get([keys.key_of(entry) for entry in chunk], only=wanted)
        by_key = {tuple(keys.key_of(row).values()): row for row in rows}
        for entry in chunk:
            row = by_key.get(tuple(keys.key_of(entry).values()))
            if row and row.get(place) == entry[place]:
                yield row
