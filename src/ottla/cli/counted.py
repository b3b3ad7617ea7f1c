"""Numbers of things, in words."""


def counted(number: int, noun: str) -> str:
    """`1 offset`, `2 offsets`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
