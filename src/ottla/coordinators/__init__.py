"""What groups and transactions agree on: replayed from a log, decided in one place at a time."""
