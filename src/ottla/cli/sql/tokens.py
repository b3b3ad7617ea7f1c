"""The tokens of a Spark SQL query, without comments and spaces. Does no I/O."""

import re
from enum import Enum, auto
from typing import NamedTuple

QUERY_CHARACTERS_MAX = 1 << 20

# Strings match before words: a raw string starts with r, and a backslash in it escapes nothing.
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
    """The query is invalid, found without Spark. The message gives the reason."""


class TokenKind(Enum):
    WORD = auto()
    # A name between backticks, never a keyword.
    QUOTED = auto()
    STRING = auto()
    SYMBOL = auto()


class Token(NamedTuple):
    """A token and its position in the query. The `text` of a name has no backticks."""

    kind: TokenKind
    text: str
    start: int
    end: int

    def is_word(self, *words: str) -> bool:
        """Whether it is one of these keywords, in any case."""
        return self.kind is TokenKind.WORD and self.text.lower() in words

    def is_symbol(self, *symbols: str) -> bool:
        return self.kind is TokenKind.SYMBOL and self.text in symbols


def tokens_of(query: str) -> list[Token]:
    """The tokens of a query. BadQuery if a string, a name or a comment is not closed."""
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
                tokens.append(Token(TokenKind.QUOTED, name, start, position))
            case "string":
                tokens.append(Token(TokenKind.STRING, found[0], start, position))
            case "word":
                tokens.append(Token(TokenKind.WORD, found[0], start, position))
            case _:
                if found[0] in "'\"`":
                    raise BadQuery(f"the {found[0]} at {_place(query, start)} is not closed")
                tokens.append(Token(TokenKind.SYMBOL, found[0], start, position))
    return tokens


def _end_of_comment(query: str, start: int) -> int:
    """The end of a comment. Comments between `/*` and `*/` can be nested."""
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
