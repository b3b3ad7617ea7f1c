"""The format as Spark finds it, and its errors if Spark cannot run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict, DataSource, DataSourceReader

import pyspark_ottla
from ottla.spark.options import BadOption
from ottla.spark.source import OttlaSource

LEAST = {"kafka.bootstrap.servers": "x:1", "subscribe": "a"}


def source(**given: str) -> OttlaSource:
    return OttlaSource(CaseInsensitiveDict(LEAST | given))


def test_spark_finds_the_format_by_its_package() -> None:
    assert pyspark_ottla.DefaultSource is OttlaSource
    assert issubclass(OttlaSource, DataSource)
    assert OttlaSource.name() == "ottla"


def test_spark_finds_the_format_without_importing_arrow() -> None:
    code = (
        "import sys; from pyspark_ottla import DefaultSource; "
        "options = {'kafka.bootstrap.servers': 'x:1', 'subscribe': 'a'}; "
        "DefaultSource(options).schema(); "
        "sys.exit(not sys.modules.keys().isdisjoint({'pyarrow', 'asyncio', 'ssl'}))"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_the_schema_has_headers_if_requested() -> None:
    assert "headers" not in source().schema().fieldNames()
    assert source(includeHeaders="true").schema().fieldNames()[-1] == "headers"


def test_options_invalid_for_every_query_are_refused_at_load() -> None:
    with pytest.raises(BadOption, match="no option 'colour'"):
        source(colour="red").schema()


def test_options_valid_for_some_query_are_accepted_at_load() -> None:
    assert source(endingOffsets="latest").schema()
    assert source(startingOffsets="latest").schema()


def test_filters_are_pushed_down_only_if_enabled() -> None:
    schema = source().schema()
    plain, narrowing = source().reader(schema), source(filterPushdown="true").reader(schema)
    assert type(plain).pushFilters is DataSourceReader.pushFilters
    assert type(narrowing).pushFilters is not DataSourceReader.pushFilters


def test_an_ignored_option_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    reader = source(groupIdPrefix="p")
    reader.streamReader(reader.schema())
    assert "ottla: the option groupIdPrefix is ignored. The source needs no group" in caplog.text


def test_without_java_the_error_names_the_package_to_install(tmp_path: Path) -> None:
    code = "from ottla.spark import session; session()"
    environment = {
        name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "SPARK_HOME")
    }
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\nexit 1\n")
    java.chmod(0o755)
    environment["PATH"] = f"{tmp_path}{os.pathsep}{environment['PATH']}"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 1
    assert "NoJava: Spark needs Java 17 or later" in done.stderr
    assert "JAVA_HOME" in done.stderr
