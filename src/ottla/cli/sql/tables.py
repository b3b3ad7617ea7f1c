"""Which topics a query names, and which of their columns. Does no I/O, and needs no Spark.

It reads only as much of SQL as it takes to tell a table from an alias, a column, a function or the
name of another part of the query. What it does not understand it leaves to Spark, which says what
is wrong with it.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from ottla.cli.sql.tokens import BadQuery, Kind, Token, tokens_of

PARENTHESES_DEPTH_MAX = 200

_QUERY_WORDS = ("select", "with", "from", "table", "values")
# What a topic may be called; two dashes begin a comment.
_BARE_NAME = re.compile(r"[A-Za-z0-9_.]+(?:-(?!-)[A-Za-z0-9_.]+)*")
# What Spark reads as one name without backticks.
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Where a list of tables ends: a comma behind these does not go on with it.
_TABLES_END = (
    *("where", "group", "having", "order", "limit", "union", "except", "intersect", "minus"),
    *("window", "select", "cluster", "distribute", "sort", "qualify"),
)
# Behind these, and at the beginning of a query, `TABLE name` is a query.
_SET_WORDS = ("union", "all", "except", "intersect", "minus", "distinct")
# Each of these may use columns that the query does not name.
_USES_UNNAMED = ("natural", "pivot", "unpivot", "table", "identifier")

_END = Token(Kind.SYMBOL, "", -1, -1)


class Query(NamedTuple):
    """A query that Spark can run once each of `topics` is a view of that name."""

    text: str
    topics: tuple[str, ...]
    # Every name in it, in lower case; None if it may use columns that it does not name.
    names: frozenset[str] | None


class Table(NamedTuple):
    """A topic's name in a query, and where it stands."""

    name: str
    start: int
    end: int


def read_query(text: str) -> Query:
    """What a query asks for. BadQuery if it is none, or several."""
    tokens = tokens_of(text)
    while tokens and tokens[-1].is_symbol(";"):
        text = text[: tokens.pop().start]
    if any(token.is_symbol(";") for token in tokens):
        raise BadQuery("it is several queries")
    first = next((token for token in tokens if not token.is_symbol("(")), None)
    if first is None or not first.is_word(*_QUERY_WORDS):
        raise BadQuery("it is no query: that begins with SELECT, WITH, FROM, TABLE or VALUES")
    reading = _Reading(text, tokens)
    reading.read()
    topics = tuple(dict.fromkeys(table.name for table in reading.tables))
    folded = {topic.lower() for topic in topics}
    if len(folded) < len(topics):
        raise BadQuery("it names two topics that Spark cannot tell apart: they differ by case only")
    names = None if reading.may_use_all else _names(tokens)
    return Query(_with_backticks(text, reading.tables), topics, names)


class _Reading:
    """One walk over the tokens of a query, from parenthesis to parenthesis."""

    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        self.tables: list[Table] = []
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
        """Up to the parenthesis that closes it; `known` are names of other parts of the query."""
        self._depth += 1
        if self._depth > PARENTHESES_DEPTH_MAX:
            raise BadQuery(f"its parentheses are more than {PARENTHESES_DEPTH_MAX} deep")
        known = self._definitions(known)
        begin = self._at
        in_query = self._peek().is_word("from")
        in_tables = of_tables and self._table(known)
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
                in_tables = self._table(known) and not token.is_word("table")
            elif token.is_word(*_TABLES_END) or self._is_lateral_view(token):
                in_tables = False
        self._depth -= 1

    def _definitions(self, known: frozenset[str]) -> frozenset[str]:
        """What is known behind `WITH name AS (…), …`, if that comes next.

        A part is known to those behind it; to itself only if it is recursive.
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
                # The names of its columns, and how deep it may recur.
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
        """Whether a table comes next. FROM is also a word of functions: `extract(day FROM …)`."""
        if token.is_word("from"):
            return in_query and not before.is_word("distinct")
        if token.is_word("table"):
            is_argument = before.is_symbol("(", ",") or before is _END
            return before.is_word(*_SET_WORDS) or (is_argument and not in_query)
        return token.is_word("join") or (in_tables and token.is_symbol(","))

    def _is_lateral_view(self, token: Token) -> bool:
        """Its commas are between columns."""
        return token.is_word("lateral") and self._peek().is_word("view")

    def _table(self, known: frozenset[str]) -> bool:
        """A topic, or what stands in its place: a query, tables in parentheses, a function.

        Whether a comma then brings another one: behind VALUES it brings another row.
        """
        if self._peek().is_word("lateral"):
            self._take()
        first, following = self._peek(), self._peek(1)
        if first.is_symbol("("):
            self._take()
            is_query = following.is_word(*_QUERY_WORDS)
            self._block(known, of_tables=not is_query)
        elif first.kind is Kind.QUOTED:
            # With more parts it is a file (`csv.`/some/path``) or a table of a catalog: Spark's.
            if not following.is_symbol(".") and first.text.lower() not in known:
                self.tables.append(Table(first.text, first.start, first.end))
            self._take()
        elif first.is_word("values"):
            return False
        elif first.kind is Kind.WORD:
            self._bare_table(first, known)
        return True

    def _bare_table(self, first: Token, known: frozenset[str]) -> None:
        name = _BARE_NAME.match(self._text, first.start)
        if name is None:
            return
        while self._peek() is not _END and self._peek().start < name.end():
            self._take()
        following = self._peek()
        is_path = following.kind is Kind.QUOTED and following.start == name.end()
        is_function = following.is_symbol("(")
        if not is_path and not is_function and name[0].lower() not in known:
            self.tables.append(Table(name[0], name.start(), name.end()))

    def _peek(self, ahead: int = 0) -> Token:
        at = self._at + ahead
        return self._tokens[at] if at < len(self._tokens) else _END

    def _take(self) -> Token:
        token = self._peek()
        self._at += 1
        return token


def _with_backticks(text: str, tables: Sequence[Table]) -> str:
    """The query with names that Spark would cut into pieces held together."""
    for table in sorted(tables, key=lambda table: table.start, reverse=True):
        if not _PLAIN_NAME.fullmatch(table.name):
            text = f"{text[: table.start]}{quoted(table.name)}{text[table.end :]}"
    return text


def quoted(name: str) -> str:
    """A name between backticks, as Spark takes it whatever is in it."""
    return f"`{name.replace('`', '``')}`"


def _names(tokens: Sequence[Token]) -> frozenset[str] | None:
    """Columns are among them. A star outside of `count(*)` may be all of them."""
    for at, token in enumerate(tokens):
        if token.is_word(*_USES_UNNAMED) or token.is_symbol("|>"):
            return None
        if token.is_symbol("*") and not _is_counted(tokens, at):
            return None
    named = (token.text.lower() for token in tokens if token.kind in (Kind.WORD, Kind.QUOTED))
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
