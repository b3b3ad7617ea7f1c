"""Log compaction: its rules, the cleaner process, and the swap of segments."""
