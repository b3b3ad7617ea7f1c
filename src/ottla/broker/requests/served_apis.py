"""The keys of the served APIs. A test checks that each of them has a handler."""

SERVED = frozenset(
    {0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28}
    | {32, 33, 34, 35, 37, 42, 43, 44, 45, 46, 47, 48, 49, 55, 57, 60, 61, 65, 66, 68, 69, 74, 75}
)

# Served on the inter-broker listener only.
INTER_BROKER = frozenset({56, 58, 67, 20_000, 20_001})
