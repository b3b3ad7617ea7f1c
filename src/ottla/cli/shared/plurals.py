"""Counts with singular and plural nouns."""


def counted(number: int, one: str, many: str | None = None) -> str:
    """`1 offset`, `2 offsets`; `many` is an irregular plural."""
    return f"{number} {one}" if number == 1 else f"{number} {many or one + 's'}"
