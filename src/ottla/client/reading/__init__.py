"""Reading partitions: offsets, fetches, and the records that a reader may see."""
