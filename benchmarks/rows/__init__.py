"""All rows, each declared once, in the order in which they run."""

from benchmarks.row import Row
from benchmarks.rows import (
    arrow,
    cluster,
    compaction,
    fairness,
    fetch,
    groups,
    paper,
    process,
    produce,
    small,
    spark,
    transactions,
)

ROWS: tuple[Row, ...] = (
    *produce.ROWS,
    *fetch.ROWS,
    *small.ROWS,
    *process.ROWS,
    *groups.ROWS,
    *transactions.ROWS,
    *compaction.ROWS,
    *paper.ROWS,
    *fairness.ROWS,
    # With brokers of their own, after all others.
    *cluster.ROWS,
    # Last: the Spark session stays open from row to row, and would disturb others.
    *spark.ROWS,
    *arrow.ROWS,
)
