"""What runs in Spark's Python workers: Arrow batches in, Arrow batches out."""

from collections.abc import Callable, Iterator

import pyarrow as pa

from skytide.queries import Query

Batches = Iterator[pa.RecordBatch]
Task = Callable[[Batches], Batches]

BUFFER_ROWS = 65_536  # reduced together: large enough to spread the cost of a call, small enough to stay in the cache


def keep(query: Query) -> Task:
    """Give the task that keeps of a partition what can still matter, reducing as the rows come in."""

    def run(batches: Batches) -> Batches:
        kept: list[pa.RecordBatch] = []
        waiting = reduced = 0
        for batch in batches:
            kept.append(batch)
            waiting += batch.num_rows
            if waiting - reduced >= max(BUFFER_ROWS, reduced):
                kept = query.pane(pa.Table.from_batches(kept)).to_batches()
                waiting = reduced = sum(part.num_rows for part in kept)
        if kept:
            yield from query.pane(pa.Table.from_batches(kept)).to_batches()

    return run


def whole(answer: Callable[[pa.Table], pa.Table]) -> Task:
    """Give the task that answers for all rows of a partition at once."""

    def run(batches: Batches) -> Batches:
        rows = list(batches)
        if rows:
            yield from answer(pa.Table.from_batches(rows)).to_batches()

    return run


def share(query: Query, slot: str, owner: str) -> Task:
    """Give the task that decides about the rows that its slot owns, against copies of all rows."""

    def run(batches: Batches) -> Batches:
        rows = list(batches)
        if rows:
            kept = pa.Table.from_batches(rows)
            mine = kept[slot].to_numpy() == kept[owner].to_numpy()
            yield from query.share(kept.drop_columns([slot, owner]), mine).to_batches()

    return run
