"""Background work on partitions: retention, checkpoints, compaction, DeleteRecords."""
