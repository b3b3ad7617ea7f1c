"""One connection's requests and responses as bytes. Does no I/O."""
