"""The topics and columns of a query, found without Spark; tests/spark compares with Spark."""

import pytest

from ottla.cli.sql.tables import PARENTHESES_DEPTH_MAX, quoted, read_query
from ottla.cli.sql.tokens import QUERY_CHARACTERS_MAX, BadQuery
from tests.support.cli.sql_queries import QUERIES, Asked


@pytest.mark.parametrize("asked", QUERIES, ids=[asked.query for asked in QUERIES])
def test_the_topics_of_a_query_are_those_that_it_reads(asked: Asked) -> None:
    assert read_query(asked.query).topics == asked.topics


def test_names_that_spark_would_cut_get_backticks_and_others_stay_as_they_are() -> None:
    assert (
        read_query("select * from a.b-c x, orders join a.b-c using (key) -- a.b-c").text
        == "select * from `a.b-c` x, orders join `a.b-c` using (key) -- a.b-c"
    )
    assert read_query("select * from `a.b` as b;").text == "select * from `a.b` as b"
    assert quoted("a`b") == "`a``b`"


def test_files_and_tables_of_catalogs_are_left_to_spark() -> None:
    query = "select * from csv.`/tmp/a.csv` a, `some`.`table` b, identifier('x') c"
    assert read_query(query).topics == ()
    assert read_query(query).text == query


@pytest.mark.parametrize(
    "query",
    [
        "select * from orders",
        "select o.*, 1 from orders o",
        "select partition * 2 from orders",
        "select count(distinct *) from orders",
        "table orders",
        "from orders",
        "with o as (select key from orders) from o",
        "select key from orders union from payments",
        "select 1 from orders |> where key = 'a'",
        "select 1 from orders natural join payments",
        "select a from orders pivot (count(key) for partition in (0 as a))",
        "select identifier('va' || 'lue') from orders",
    ],
)
def test_a_query_that_may_use_columns_without_naming_them_gets_all(query: str) -> None:
    assert read_query(query).names is None


def test_the_names_of_a_query_include_its_columns_in_any_case() -> None:
    names = read_query("select COUNT( * ), `Key` from orders where o.OFFSET > 'value'").names
    assert names is not None
    assert {"key", "offset"} <= names
    assert "value" not in names


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("", "not a query"),
        (";", "not a query"),
        ("-- nothing", "not a query"),
        ("drop table orders", "not a query"),
        ("insert into orders select 1", "not a query"),
        ("select 1; select 2", "several"),
        ("select 'a", "line 1, column 8 is not closed"),
        ("select\n  `a", "line 2, column 3 is not closed"),
        ("select 1 /* /* */", "comment at line 1, column 10 is not closed"),
        ("select 1 from orders, Orders", "differ only in case"),
        ("select " + "(" * PARENTHESES_DEPTH_MAX, "parentheses"),
        ("select " + " " * QUERY_CHARACTERS_MAX, "longer than"),
    ],
)
def test_an_invalid_query_is_refused_with_a_reason(query: str, why: str) -> None:
    with pytest.raises(BadQuery, match=why):
        read_query(query)


@pytest.mark.parametrize(
    ("query", "topics"),
    [
        ("select )", ()),
        ("with", ()),
        ("with a", ()),
        ("with a as", ()),
        ("with a as (", ()),
        ("select from", ()),
        ("from (", ()),
        ("select 1 from (a, ", ("a",)),
    ],
)
def test_half_a_query_is_read_as_far_as_it_goes(query: str, topics: tuple[str, ...]) -> None:
    assert read_query(query).topics == topics
