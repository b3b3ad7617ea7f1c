"""Reads a topic as a table: prints the number of records per partition, and the last records.

$ python examples/read_topic.py orders localhost:9092
"""

import sys

import pyarrow as pa
import pyarrow.compute as pc

import ottla


def summary(topic: str, bootstrap_servers: str) -> pa.Table:
    """The number of records and of value bytes per partition, read batch by batch."""
    counted = []
    for batch in ottla.read_topic(
        topic, bootstrap_servers=bootstrap_servers, columns=["partition", "value"], batches=True
    ):
        sizes = pc.binary_length(batch["value"])
        counted.append(pa.table({"partition": batch["partition"], "bytes": sizes}))
    if not counted:
        return pa.table({"partition": [], "records": [], "bytes": []})
    by_partition = pa.concat_tables(counted).group_by("partition")
    summed = by_partition.aggregate(
        [("bytes", "count", pc.CountOptions(mode="all")), ("bytes", "sum")]
    )
    return summed.rename_columns(["partition", "records", "bytes"]).sort_by("partition")


def main(topic: str, bootstrap_servers: str = "localhost:9092") -> None:
    print(summary(topic, bootstrap_servers).to_pylist())
    table = ottla.read_topic(topic, bootstrap_servers=bootstrap_servers)
    for row in table.slice(max(0, table.num_rows - 5)).to_pylist():
        print(row["partition"], row["offset"], row["timestamp"], row["key"], row["value"])


if __name__ == "__main__":
    main(*sys.argv[1:])
