"""The words of a query in Spark's SQL, with neither its comments nor its spaces. Does no I/O."""

import re
from enum import Enum, auto
from typing import NamedTuple

QUERY_CHARACTERS_MAX = 1 << 20

# Strings before words: the r of a raw one belongs to it, and there a backslash escapes nothing.
_TOKEN = re.compile(
    r"""
    (?P<nothing>\s+ | --(?:\\\n|[^\n])*)
  | (?P<comment>/\*)
  | (?P<string>[rR]'[^']*' | [rR]"[^"]*" | '(?:\\.|[^'\\])*' | "(?:\\.|[^"\\])*")
  | (?P<quoted>`(?:[^`]|``)*`)
  | (?P<word>\w+)
  | (?P<symbol>\|> | .)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")


class BadQuery(Exception):
    """A query that Spark need not be started for. The message says what is wrong with it."""


class Kind(Enum):
    WORD = auto()
    # A name between backticks, which is never a keyword.
    QUOTED = auto()
    STRING = auto()
    SYMBOL = auto()


class Token(NamedTuple):
    """A piece of a query, and where it stands there. `text` is a name without its backticks."""

    kind: Kind
    text: str
    start: int
    end: int

    def is_word(self, *words: str) -> bool:
        """Whether it is one of these keywords, in whatever case."""
        return self.kind is Kind.WORD and self.text.lower() in words

    def is_symbol(self, *symbols: str) -> bool:
        return self.kind is Kind.SYMBOL and self.text in symbols


def tokens_of(query: str) -> list[Token]:
    """In the order of the query. BadQuery if a string, a name or a comment has no end."""
    if len(query) > QUERY_CHARACTERS_MAX:
        raise BadQuery(f"it is longer than {QUERY_CHARACTERS_MAX} characters")
    tokens = []
    position = 0
    while found := _TOKEN.match(query, position):
        start, position = found.span()
        match found.lastgroup:
            case "nothing":
                continue
            case "comment":
                position = _end_of_comment(query, start)
            case "quoted":
                name = found[0][1:-1].replace("``", "`")
                tokens.append(Token(Kind.QUOTED, name, start, position))
            case "string":
                tokens.append(Token(Kind.STRING, found[0], start, position))
            case "word":
                tokens.append(Token(Kind.WORD, found[0], start, position))
            case _:
                if found[0] in "'\"`":
                    raise BadQuery(f"the {found[0]} at {_place(query, start)} is not closed")
                tokens.append(Token(Kind.SYMBOL, found[0], start, position))
    return tokens


def _end_of_comment(query: str, start: int) -> int:
    """Comments between `/*` and `*/` may hold others."""
    depth = 0
    for edge in _COMMENT_EDGE.finditer(query, start):
        depth += 1 if edge[0] == "/*" else -1
        if depth == 0:
            return edge.end()
    raise BadQuery(f"the comment at {_place(query, start)} is not closed")


def _place(query: str, position: int) -> str:
    line = query.count("\n", 0, position) + 1
    column = position - (query.rfind("\n", 0, position) + 1) + 1
    return f"line {line}, column {column}"
