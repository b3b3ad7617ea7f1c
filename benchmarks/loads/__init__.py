"""The loads: each does the same to any broker, through a client that is not the limit."""
