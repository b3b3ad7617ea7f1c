"""The APIs that are offered and answered: each has a handler, and a test holds the two together."""

SERVED = frozenset({0, 1, 2, 3, 18, 19, 20, 21, 22, 23, 32, 35, 37, 55, 60, 75})
