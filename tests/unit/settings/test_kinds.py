"""Each kind parses and formats as Kafka does, and describes its allowed values."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.settings.kinds import (
    INT_MAX,
    INT_MIN,
    LONG_MAX,
    LONG_MIN,
    Boolean,
    ClassName,
    ConfigType,
    Double,
    Kind,
    NotAllowed,
    OneOf,
    Password,
    Secret,
    Text,
    TextList,
    Unit,
    integer,
    long,
)
from ottla.settings.table.records import CompressionType, TimestampType
from ottla.settings.table.replicas import ReplicaSelectorClass

RATIO = Double(0.0, 1.0)
POLICY = TextList(choices=("compact", "delete"))
SELECTOR = ClassName(ReplicaSelectorClass)
LEADER_SELECTOR = "org.apache.kafka.common.replica.LeaderSelector"

READ = [
    # kind, text, value, printed
    (integer(), "5", 5, "5"),
    (integer(), " 5 ", 5, "5"),
    (integer(), "+5", 5, "5"),
    (integer(), "-0", 0, "0"),
    (integer(), "007", 7, "7"),
    (integer(), str(INT_MAX), INT_MAX, "2147483647"),
    (integer(), str(INT_MIN), INT_MIN, "-2147483648"),
    (integer(1, 9, also_allowed=-1), "-1", -1, "-1"),
    (integer(1, 9, also_allowed=-1), "9", 9, "9"),
    (long(unit=Unit.MS), "604800000", 604_800_000, "604800000"),
    (long(), str(LONG_MAX), LONG_MAX, "9223372036854775807"),
    (long(), str(LONG_MIN), LONG_MIN, "-9223372036854775808"),
    (RATIO, "0.5", 0.5, "0.5"),
    (RATIO, "1", 1.0, "1.0"),
    (RATIO, ".25", 0.25, "0.25"),
    (RATIO, "1e-1", 0.1, "0.1"),
    (RATIO, "0.00001", 1e-5, "1.0E-5"),
    (RATIO, "0.000123", 1.23e-4, "1.23E-4"),
    (Double(0.0, 1e9), "123456789", 123456789.0, "1.23456789E8"),
    (Boolean(), "true", True, "true"),
    (Boolean(), "TRUE", True, "true"),
    (Boolean(), " False ", False, "false"),
    (Text(), " 127.0.0.1 ", "127.0.0.1", "127.0.0.1"),
    (OneOf(TimestampType), " CreateTime ", TimestampType.CREATE_TIME, "CreateTime"),
    (OneOf(CompressionType), "zstd", CompressionType.ZSTD, "zstd"),
    (SELECTOR, ReplicaSelectorClass.LEADER, ReplicaSelectorClass.LEADER, LEADER_SELECTOR),
    (SELECTOR, " LeaderSelector ", ReplicaSelectorClass.LEADER, LEADER_SELECTOR),
    (POLICY, "delete", ("delete",), "delete"),
    (POLICY, "compact, delete", ("compact", "delete"), "compact,delete"),
    (POLICY, "compact,compact", ("compact",), "compact"),
    (POLICY, "", (), ""),
    (TextList(), "0:1,1:2", ("0:1", "1:2"), "0:1,1:2"),
    (TextList(may_be_empty=False), "/a,/b", ("/a", "/b"), "/a,/b"),
    (Password(), "hush", Secret("hush"), "[hidden]"),
]

REFUSED = [
    (integer(), ""),
    (integer(), "abc"),
    (integer(), "5.0"),
    (integer(), "0x5"),
    (integer(), "1_0"),
    (integer(), "1 0"),
    (integer(), "--1"),
    (integer(), "٣"),
    (integer(), str(INT_MAX + 1)),
    (integer(), str(INT_MIN - 1)),
    (integer(1), "0"),
    (integer(1, 9, also_allowed=-1), "0"),
    (integer(1, 9, also_allowed=-1), "-2"),
    (integer(), "9" * 100_000),
    (long(), str(LONG_MAX + 1)),
    (long(-1), "-2"),
    (RATIO, "1.5"),
    (RATIO, "-0.1"),
    (RATIO, "NaN"),
    (RATIO, "Infinity"),
    (RATIO, "0x1p-1"),
    (RATIO, "1e-"),
    (RATIO, ""),
    (RATIO, "1e999"),
    (Boolean(), "yes"),
    (Boolean(), "1"),
    (Boolean(), ""),
    (Text(), "  "),
    (OneOf(TimestampType), "createtime"),
    (OneOf(TimestampType), ""),
    (SELECTOR, ""),
    (SELECTOR, "com.example.LeaderSelector"),
    (POLICY, "foo"),
    (POLICY, "COMPACT"),
    (POLICY, "delete,"),
    (POLICY, ","),
    (TextList(may_be_empty=False), ""),
    (Password(), ""),
]


@pytest.mark.parametrize(("kind", "text", "value", "printed"), READ)
def test_a_kind_reads_a_text_and_prints_it_as_kafka_does(
    kind: Kind[Any], text: str, value: object, printed: str
) -> None:
    read = kind.parse(text)
    assert read == value
    assert type(read) is type(value)
    assert kind.format(read) == printed


@pytest.mark.parametrize(("kind", "text"), REFUSED, ids=lambda value: str(value)[:40])
def test_a_kind_refuses_invalid_text_and_describes_the_allowed_values(
    kind: Kind[Any], text: str
) -> None:
    with pytest.raises(NotAllowed) as refused:
        kind.parse(text)
    assert str(refused.value) == kind.allowed


@pytest.mark.parametrize(
    ("kind", "number", "allowed"),
    [
        (Boolean(), 1, "true or false"),
        (Text(), 2, "a non-empty string"),
        (OneOf(TimestampType), 2, "one of CreateTime, LogAppendTime"),
        (integer(1), 3, "a whole number from 1 to 2147483647"),
        (integer(1, 9, also_allowed=-1), 3, "-1 or a whole number from 1 to 9"),
        (
            long(-1, unit=Unit.MS),
            5,
            "a whole number of ms from -1 to 9223372036854775807",
        ),
        (RATIO, 6, "a number from 0.0 to 1.0"),
        (POLICY, 7, "a comma-separated list of compact, delete"),
        (TextList(may_be_empty=False), 7, "a non-empty comma-separated list"),
        (Password(), 9, "a non-empty string"),
    ],
)
def test_a_kind_has_kafkas_type_number_and_describes_its_allowed_values(
    kind: Kind[Any], number: int, allowed: str
) -> None:
    assert kind.config_type == number
    assert kind.allowed == allowed


def test_the_numbers_of_types_are_those_of_describe_configs() -> None:
    assert {each.name: each.value for each in ConfigType} == {
        "BOOLEAN": 1,
        "STRING": 2,
        "INT": 3,
        "SHORT": 4,
        "LONG": 5,
        "DOUBLE": 6,
        "LIST": 7,
        "CLASS": 8,
        "PASSWORD": 9,
    }


def test_a_secret_is_shown_by_reveal_only() -> None:
    secret = Password().parse("hush")
    assert "hush" not in f"{secret} {secret!r} {[secret]}"
    assert secret.reveal() == "hush"
    assert secret != Secret("other")


@settings(derandomize=True, deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_finite_number_survives_being_printed(value: float) -> None:
    assert float(RATIO.format(value)) == value


@settings(derandomize=True, deadline=None)
@given(st.integers(LONG_MIN, LONG_MAX))
def test_every_long_survives_being_printed_and_read(value: int) -> None:
    kind = long()
    assert kind.parse(kind.format(value)) == value
