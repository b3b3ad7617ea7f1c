"""The topics and columns that a query names. Does no I/O, and does not import Spark.

It parses only enough SQL to distinguish a table from an alias, a column, a function or a common
table expression. Spark reports errors in everything else.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from ottla.cli.sql.tokens import BadQuery, Token, TokenKind, tokens_of

PARENTHESES_DEPTH_MAX = 200

_QUERY_WORDS = ("select", "with", "from", "table", "values")
# A topic's name; two dashes start a comment.
_BARE_NAME = re.compile(r"[A-Za-z0-9_.]+(?:-(?!-)[A-Za-z0-9_.]+)*")
# A name that Spark accepts without backticks.
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Keywords that end a list of tables: a comma after them is not part of it.
_TABLES_END = (
    *("where", "group", "having", "order", "limit", "union", "except", "intersect", "minus"),
    *("window", "select", "cluster", "distribute", "sort", "qualify"),
)
# After these, and at the start of a query, `TABLE name` is a query.
_SET_WORDS = ("union", "all", "except", "intersect", "minus", "distinct")
# Keywords that may use columns which the query does not name.
_USES_UNNAMED = ("natural", "pivot", "unpivot", "table", "identifier")

_END = Token(TokenKind.SYMBOL, "", -1, -1)


class Query(NamedTuple):
    """A query that Spark can run once each of `topics` is a view of that name."""

    text: str
    topics: tuple[str, ...]
    # All names in the query, in lower case; None if it may use columns that it does not name.
    names: frozenset[str] | None


class TableReference(NamedTuple):
    """A topic's name in a query, and its position."""

    name: str
    start: int
    end: int


def read_query(text: str) -> Query:
    """Parses a query. BadQuery if it is not exactly one query."""
    tokens = tokens_of(text)
    while tokens and tokens[-1].is_symbol(";"):
        text = text[: tokens.pop().start]
    if any(token.is_symbol(";") for token in tokens):
        raise BadQuery("it has several statements")
    first = next((token for token in tokens if not token.is_symbol("(")), None)
    if first is None or not first.is_word(*_QUERY_WORDS):
        raise BadQuery("it is not a query: one begins with SELECT, WITH, FROM, TABLE or VALUES")
    reader = _QueryReader(text, tokens)
    reader.read()
    topics = tuple(dict.fromkeys(table.name for table in reader.tables))
    folded = {topic.lower() for topic in topics}
    if len(folded) < len(topics):
        raise BadQuery("it names two topics that differ only in case, which Spark ignores")
    names = None if reader.may_use_all else _names(tokens)
    return Query(_with_backticks(text, reader.tables), topics, names)


class _QueryReader:
    """One pass over the tokens of a query, by nested parentheses."""

    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        self.tables: list[TableReference] = []
        # `FROM orders` is a query by itself, with all columns.
        self.may_use_all = False
        self._text = text
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    def read(self) -> None:
        while self._at < len(self._tokens):
            self._block(frozenset())

    def _block(self, known: frozenset[str], *, of_tables: bool = False) -> None:
        """Reads up to the closing parenthesis; `known` are names of common table expressions."""
        self._depth += 1
        if self._depth > PARENTHESES_DEPTH_MAX:
            raise BadQuery(f"its parentheses are nested deeper than {PARENTHESES_DEPTH_MAX}")
        known = self._definitions(known)
        begin = self._at
        in_query = self._peek().is_word("from")
        in_tables = of_tables and self._read_table(known)
        while (token := self._take()) is not _END and not token.is_symbol(")"):
            before = self._tokens[self._at - 2] if self._at - 1 > begin else _END
            if token.is_symbol("("):
                self._block(known)
            elif before.is_symbol("."):
                continue
            elif token.is_word("select"):
                in_query, in_tables = True, False
            elif self._names_tables(token, before, in_query, in_tables):
                begins_query = before is _END or before.is_word(*_SET_WORDS)
                self.may_use_all |= token.is_word("from") and begins_query
                in_tables = self._read_table(known) and not token.is_word("table")
            elif token.is_word(*_TABLES_END) or self._is_lateral_view(token):
                in_tables = False
        self._depth -= 1

    def _definitions(self, known: frozenset[str]) -> frozenset[str]:
        """The known names after `WITH name AS (…), …`, if that comes next.

        A common table expression is known to later ones, and to itself only if it is recursive.
        """
        if not self._peek().is_word("with"):
            return known
        self._take()
        is_recursive = self._peek().is_word("recursive")
        if is_recursive:
            self._take()
        while True:
            name = frozenset({self._take().text.lower()})
            while not self._peek().is_word("as") and self._peek() is not _END:
                # Skips the names of its columns and its maximum recursion level.
                self._take()
            self._take()
            if not self._take().is_symbol("("):
                return known
            self._block(known | name if is_recursive else known)
            known |= name
            if not self._peek().is_symbol(","):
                return known
            self._take()

    def _names_tables(self, token: Token, before: Token, in_query: bool, in_tables: bool) -> bool:
        """Whether a table comes next. Functions use FROM too: `extract(day FROM …)`."""
        if token.is_word("from"):
            return in_query and not before.is_word("distinct")
        if token.is_word("table"):
            is_argument = before.is_symbol("(", ",") or before is _END
            return before.is_word(*_SET_WORDS) or (is_argument and not in_query)
        return token.is_word("join") or (in_tables and token.is_symbol(","))

    def _is_lateral_view(self, token: Token) -> bool:
        """Commas of a lateral view separate columns, not tables."""
        return token.is_word("lateral") and self._peek().is_word("view")

    def _read_table(self, known: frozenset[str]) -> bool:
        """Reads a topic, a subquery, tables in parentheses or a function.

        Returns whether a comma after it separates tables: after VALUES it separates rows.
        """
        if self._peek().is_word("lateral"):
            self._take()
        first, following = self._peek(), self._peek(1)
        if first.is_symbol("("):
            self._take()
            is_query = following.is_word(*_QUERY_WORDS)
            self._block(known, of_tables=not is_query)
        elif first.kind is TokenKind.QUOTED:
            # A name with several parts is a file (`csv.`/some/path``) or a table of a catalog.
            if not following.is_symbol(".") and first.text.lower() not in known:
                self.tables.append(TableReference(first.text, first.start, first.end))
            self._take()
        elif first.is_word("values"):
            return False
        elif first.kind is TokenKind.WORD:
            self._bare_table(first, known)
        return True

    def _bare_table(self, first: Token, known: frozenset[str]) -> None:
        name = _BARE_NAME.match(self._text, first.start)
        if name is None:
            return
        while self._peek() is not _END and self._peek().start < name.end():
            self._take()
        following = self._peek()
        is_path = following.kind is TokenKind.QUOTED and following.start == name.end()
        is_function = following.is_symbol("(")
        if not is_path and not is_function and name[0].lower() not in known:
            self.tables.append(TableReference(name[0], name.start(), name.end()))

    def _peek(self, ahead: int = 0) -> Token:
        at = self._at + ahead
        return self._tokens[at] if at < len(self._tokens) else _END

    def _take(self) -> Token:
        token = self._peek()
        self._at += 1
        return token


def _with_backticks(text: str, tables: Sequence[TableReference]) -> str:
    """The query with backticks around names that Spark would split."""
    for table in sorted(tables, key=lambda table: table.start, reverse=True):
        if not _PLAIN_NAME.fullmatch(table.name):
            text = f"{text[: table.start]}{quoted(table.name)}{text[table.end :]}"
    return text


def quoted(name: str) -> str:
    """A name between backticks, valid for any name."""
    return f"`{name.replace('`', '``')}`"


def _names(tokens: Sequence[Token]) -> frozenset[str] | None:
    """All names, including columns; None if a star outside of `count(*)` may use any column."""
    for at, token in enumerate(tokens):
        if token.is_word(*_USES_UNNAMED) or token.is_symbol("|>"):
            return None
        if token.is_symbol("*") and not _is_counted(tokens, at):
            return None
    named = (
        token.text.lower() for token in tokens if token.kind in (TokenKind.WORD, TokenKind.QUOTED)
    )
    return frozenset(named)


def _is_counted(tokens: Sequence[Token], star: int) -> bool:
    before, after = tokens[max(0, star - 2) : star], tokens[star + 1 : star + 2]
    return (
        len(before) == 2
        and before[0].is_word("count")
        and before[1].is_symbol("(")
        and bool(after)
        and after[0].is_symbol(")")
    )
