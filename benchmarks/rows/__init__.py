"""All rows, each declared once, in the order in which they run."""

from benchmarks.row import Row
from benchmarks.rows import fairness, fetch, paper, process, produce, small

ROWS: tuple[Row, ...] = (
    *produce.ROWS,
    *fetch.ROWS,
    *small.ROWS,
    *process.ROWS,
    *paper.ROWS,
    *fairness.ROWS,
)
