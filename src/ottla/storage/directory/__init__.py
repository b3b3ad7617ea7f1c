"""A broker's log.dirs: locks, checkpoint files, and which directory has which partition."""
