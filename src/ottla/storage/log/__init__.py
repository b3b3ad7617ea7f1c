"""One partition's log: segments, indexes, leader epochs, reads, retention."""
