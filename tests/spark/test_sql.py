"""`ottla sql` with a real Spark: the topics that both find in a query, and no process left over."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from ottla.cli.sql.tables import Query, quoted, read_query
from ottla.spark.queries import (
    QUICK_START_OFFSETS_MAX,
    SESSION_CONF,
    columns_of,
    columns_with_kinds,
    conf_for,
    error_text,
    make_view,
    records_read,
    rows_of,
)
from tests.support.cli.sql_queries import QUERIES, Asked
from tests.support.spark.topics import Topics, numbered

TIMEOUT_S = 600
# However slow the machine is, Java gets the time to remove its files.
PATIENT = f"""
import sys
from ottla.cli.main import main
from ottla.cli.sql import spark_process
spark_process.GRACE_S = {TIMEOUT_S}
sys.argv[0] = "ottla"
main()
"""
COMMAND = [sys.executable, "-c", PATIENT, "sql"]
SMALL = ("--conf", "spark.driver.memory=768m", "--conf", "spark.master=local[2]")
# Two rows for each of two keys; Spark needs no task to read them.
ROWS = """
    select * from values
        (X'61', X'31', 't', 0, 0L, cast(null as timestamp), 0),
        (X'61', X'32', 't', 0, 1L, null, 0),
        (X'62', X'33', 't', 1, 0L, null, 0),
        (X'62', null, 't', 1, 1L, null, 0)
    as t(key, value, topic, partition, offset, timestamp, timestampType)
"""


def asked_with(spark: SparkSession, query: Query, columns: list[str]) -> DataFrame:
    """The query over topics that have these columns."""
    session = spark.newSession()
    for topic in query.topics:
        session.sql(ROWS).select(columns).createOrReplaceTempView(quoted(topic))
    return session.sql(query.text)


@pytest.mark.parametrize("asked", QUERIES, ids=[asked.query for asked in QUERIES])
def test_spark_needs_no_other_topic_or_column_than_was_found(
    spark: SparkSession, asked: Asked
) -> None:
    query = read_query(asked.query)
    found = asked_with(spark, query, columns_of(query.names))
    with_all = asked_with(spark, query, columns_of(None))
    assert found.schema == with_all.schema
    if query.names is not None:
        assert sorted(found.collect(), key=repr) == sorted(with_all.collect(), key=repr)


def view(spark: SparkSession, servers: str, topic: str, query: str, **how: bool) -> DataFrame:
    read = read_query(query.format(topic))
    for name in read.topics:
        make_view(
            spark,
            name,
            names=read.names,
            is_text=how.get("is_text", False),
            bootstrap_servers=servers,
            options={},
        )
    return spark.sql(read.text)


def test_a_topic_is_a_view_of_its_own_name_with_the_columns_that_are_named(
    spark: SparkSession, servers: str, topics: Topics
) -> None:
    name = "shop.orders-eu"
    topics.make(name, partitions=2)
    topics.send(name, numbered(0, 5), key=b"k", headers=[("h", b"1")])
    session = spark.newSession()
    counted = view(session, servers, name, "select count(*) n from {} where offset > 1")
    assert [tuple(row) for row in rows_of(counted)] == [(3,)]
    assert columns_with_kinds(counted) == [("n", True)]
    assert session.table(quoted(name)).columns == ["offset"]
    headers = view(session, servers, name, "select headers[0].value from {} limit 1")
    assert [row[0] for row in rows_of(headers)] == [b"1"]


def test_keys_and_values_are_text_for_functions_that_take_text_only(
    spark: SparkSession, servers: str, topics: Topics, topic: str
) -> None:
    topics.make(topic)
    topics.send(topic, [b'{"total": 3}', b'{"total": 4}'])
    session = spark.newSession()
    query = "select sum(get_json_object(value, '$.total')) from {}"
    with pytest.raises(Exception, match="BINARY") as caught:
        view(session, servers, topic, query)
    assert '"BINARY"' in error_text(caught.value)
    assert "RelationV2" not in error_text(caught.value)
    total = view(session, servers, topic, query, is_text=True)
    assert [row[0] for row in rows_of(total)] == [7.0]


def test_records_are_counted_where_they_are_read(
    spark: SparkSession, servers: str, topics: Topics, topic: str
) -> None:
    topics.make(topic, partitions=2)
    for partition in range(2):
        topics.send(topic, numbered(0, 50), partition=partition)
    before = records_read(spark)
    assert len(list(rows_of(view(spark.newSession(), servers, topic, "select key from {}")))) == 100
    assert records_read(spark) - before == 100


def test_only_a_long_query_waits_for_javas_second_compiler() -> None:
    long, short = conf_for(QUICK_START_OFFSETS_MAX + 1), conf_for(QUICK_START_OFFSETS_MAX)
    assert long == SESSION_CONF
    assert "Tiered" in short["spark.driver.defaultJavaOptions"]


# The whole command, in a process with a Spark of its own.


def run(*words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*COMMAND, *words],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env=os.environ | environment,
        check=False,
    )


def test_a_question_in_one_line(servers: str, topics: Topics, tmp_path: Path) -> None:
    topics.make("eu.sold-things", partitions=2)
    topics.send("eu.sold-things", [b"apple", b"pear", b"\xff"], key=b"anna")
    topics.send("eu.sold-things", [b"plum"], key=b"bob", partition=1)
    topics.make("buyers")
    topics.send("buyers", [b"Anna A."], key=b"anna")
    query = """
        with bought as (select key, collect_list(value) what from eu.sold-things group by key)
        select b.key, what, n.value name from bought b left join buyers n using (key) order by 1
    """
    ran = run(query, "-o", "jsonl", "-b", servers, *SMALL, TMPDIR=str(tmp_path))
    assert ran.returncode == 0, ran.stderr
    anna, bob = map(json.loads, ran.stdout.splitlines())
    assert anna["name"] == "Anna A."
    assert sorted(map(str, anna["what"])) == ["apple", "pear", "{'base64': '/w=='}"]
    assert bob == {"key": "bob", "what": ["plum"], "name": None}
    assert re.fullmatch(r"2 rows, 5 records read, [0-9.]+ s\n", ran.stderr)
    assert list(tmp_path.iterdir()) == []


def test_a_query_that_spark_refuses_ends_in_its_words_and_no_log(tmp_path: Path) -> None:
    ran = run("select nothing", *SMALL, TMPDIR=str(tmp_path))
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "`nothing` cannot be resolved" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert list(tmp_path.iterdir()) == []


def test_without_java_the_error_names_the_package_to_install(tmp_path: Path) -> None:
    ran = run("select 1", TMPDIR=str(tmp_path), JAVA_HOME=str(tmp_path / "none"))
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "install it" in ran.stderr
    assert "Traceback" not in ran.stderr
    (log,) = tmp_path.glob("ottla-sql-*.log")
    assert str(log) in ran.stderr
    assert "java" in log.read_text()


def test_an_interrupt_leaves_no_java_behind(tmp_path: Path) -> None:
    endless = "select count(*) from range(1000000000000) where hash(id) = 0"
    terminal, screen = os.openpty()
    child = subprocess.Popen(
        [*COMMAND, endless, *SMALL],
        stdout=subprocess.PIPE,
        stderr=screen,
        env=os.environ | {"TMPDIR": str(tmp_path), "TERM": "xterm"},
    )
    os.close(screen)
    try:
        shown = b""
        while b"running the query" not in shown:
            shown += os.read(terminal, 4096)
        assert b"starting Spark" in shown
        started = descendants(child.pid)
        assert any("java" in command for command in started.values())
        child.send_signal(signal.SIGINT)
        stdout, _ = child.communicate(timeout=TIMEOUT_S)
    finally:
        child.kill()
        child.wait()
        os.close(terminal)
    assert (child.returncode, stdout) == (130, b"")
    left = {pid: command for pid, command in started.items() if Path(f"/proc/{pid}").exists()}
    assert left == {}
    assert list(tmp_path.iterdir()) == []


def descendants(pid: int) -> dict[int, str]:
    """A process' descendants with their commands, except those that end meanwhile."""
    found: dict[int, str] = {}
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return found
    for child in map(int, children):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found[child] = Path(f"/proc/{child}/cmdline").read_bytes().decode()
            found |= descendants(child)
    return found
