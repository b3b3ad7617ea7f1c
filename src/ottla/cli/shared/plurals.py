"""Numbers of things, in words."""


def counted(number: int, one: str, many: str | None = None) -> str:
    """`1 offset`, `2 offsets`; where an s does not do, `many` is the word."""
    return f"{number} {one}" if number == 1 else f"{number} {many or one + 's'}"
