"""`ottla log`: what lies on disk, without a broker. The only commands that import the storage."""
