"""Log compaction: what is cleaned, the cleaner process, and the swap of segments."""
