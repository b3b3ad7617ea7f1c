"""Spark SQL queries, and the topics that each reads."""

from typing import NamedTuple


class Asked(NamedTuple):
    query: str
    topics: tuple[str, ...]


ORDERS = ("orders",)
BOTH = ("orders", "payments")

QUERIES = [
    Asked("SELECT 1", ()),
    Asked("select count(*) from orders", ORDERS),
    Asked("SELECT key FROM orders WHERE offset > 1; -- done", ORDERS),
    Asked("select o.key, p.value from orders o join payments as p on o.key = p.key", BOTH),
    Asked("select o.key from orders o, payments p where o.offset = p.offset", BOTH),
    Asked("select key from orders left semi join payments using (key, partition)", BOTH),
    Asked("select count(*) from orders natural join payments", BOTH),
    Asked("select key from (orders o join (payments) using (key))", BOTH),
    Asked("select key from (select * from orders union all table payments)", BOTH),
    Asked("(select key from orders) except select key from payments", BOTH),
    Asked("((select key from orders) union (select key from payments)) order by 1", BOTH),
    Asked("from orders select key", ORDERS),
    Asked("from orders", ORDERS),
    Asked("table orders", ORDERS),
    Asked("from orders |> where offset > 0 |> join payments using (key)", BOTH),
    Asked("select key from orders where exists (select 1 from payments)", BOTH),
    Asked("select key, (select max(value) from payments) from orders", ("payments", "orders")),
    Asked("with o as (select key from orders) select count(*) from o", ORDERS),
    Asked("with orders as (select key from orders) select key from orders", ORDERS),
    Asked("with a as (select key from orders), b (k) as (select key from a) from b", ORDERS),
    Asked(
        "select k from (with payments as (select key k from orders) select k from payments)"
        " union select key from payments",
        BOTH,
    ),
    Asked(
        "with recursive n as (select 1 as i union all select i + 1 from n where i < 3)"
        " select i, key from n, orders",
        ORDERS,
    ),
    Asked("select key, m from orders lateral view explode(map(1, 2)) e as n, m", ORDERS),
    Asked("select key, n from orders lateral view explode(array(1, 2)) e as n", ORDERS),
    Asked("select key, n from orders, lateral (select offset + 1 as n)", ORDERS),
    Asked("select a from values (1, 2), (3, 4) as orders(a, b)", ()),
    Asked("select id, key from range(3) join orders on id = offset", ORDERS),
    Asked("select extract(day from timestamp), trim(both 'f' from 'from') from orders", ORDERS),
    Asked("select substring((topic) from 2), key is distinct from value from orders", ORDERS),
    Asked("select 'from a', \"from b\", r'from \\', 'it''s from c' from orders", ORDERS),
    Asked("select key -- from a\n from /* from b /* from c */ */ orders", ORDERS),
    Asked("select a.from from (select struct(key as `from`) a from orders)", ORDERS),
    Asked("select o.partition from orders tablesample (100 percent) o, payments p", BOTH),
    Asked(
        "select a, b from orders pivot (count(value) for partition in (0 as a, 1 as b))",
        ORDERS,
    ),
    Asked("select `select`.key from orders `select`", ORDERS),
    Asked("select row_number() over (partition by key order by offset) from orders", ORDERS),
    Asked("select key from shop.orders-eu join `2024` using (key)", ("shop.orders-eu", "2024")),
    Asked("select key from 2024-orders--of a year\n", ("2024-orders",)),
    Asked("select o.key from `a--b` o cross join shop.x", ("a--b", "shop.x")),
]
