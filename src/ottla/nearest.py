"""Suggests the existing name that is nearest to a misspelt one."""

from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most similar to this one, ignoring case; None if none is similar."""
    # Imported here: only a wrong name needs it.
    from difflib import get_close_matches

    by_folded = {each.casefold(): each for each in known}
    close = get_close_matches(name.casefold(), by_folded, n=1)
    return by_folded[close[0]] if close else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The suggestion that ends an error message about a name; empty if there is none."""
    near = nearest(name, known)
    return "" if near is None else f"; did you mean '{near}'?"
