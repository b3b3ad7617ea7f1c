"""Partitions as arguments of `ottla txn …`."""

import pytest

from ottla.cli.shared.failure import ExitCode, Failure
from ottla.cli.txn.partition_name import TopicOrPartition, parse_partition, partition_name
from ottla.protocol.topic_partition import TopicPartition


def test_a_name_in_a_row_is_an_argument() -> None:
    partition = TopicPartition("orders-0", 12)
    assert parse_partition(partition_name(partition)) == TopicOrPartition("orders-0", 12)


def test_a_topic_alone_means_all_of_its_partitions() -> None:
    assert parse_partition("orders-0") == TopicOrPartition("orders-0", None)


@pytest.mark.parametrize("text", ["", ":", ":0", "orders:", "orders:x", "a:0:1", "a:-1", "a:²"])
def test_anything_else_is_a_usage_error(text: str) -> None:
    with pytest.raises(Failure) as failed:
        parse_partition(text)
    assert failed.value.exit_code == ExitCode.USAGE
