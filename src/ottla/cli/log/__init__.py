"""`ottla log`: log directories on disk, without a broker. The only commands that import storage."""
