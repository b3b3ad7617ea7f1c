"""The name that was probably meant by one that does not exist."""

from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that looks most like this one, whatever its case; None if none does."""
    # Imported here: whoever names things right has no use for it.
    from difflib import get_close_matches

    by_folded = {each.casefold(): each for each in known}
    close = get_close_matches(name.casefold(), by_folded, n=1)
    return by_folded[close[0]] if close else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """What an error about a name goes on with: a question, or nothing."""
    near = nearest(name, known)
    return "" if near is None else f"; did you mean '{near}'?"
