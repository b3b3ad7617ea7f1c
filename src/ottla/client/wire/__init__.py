"""The protocol state of one connection: versions, encoding, requests in flight. Does no I/O."""
