"""Lag in records and in time."""

import asyncio
from collections.abc import Mapping
from typing import Any

from ottla.client.admin.lag import Lag, lags
from ottla.client.errors import Refused
from ottla.client.routing.outcomes import Outcomes
from ottla.errors import ErrorCode
from ottla.protocol.batch import (
    Marker,
    MarkerKind,
    Record,
    build,
    build_marker,
    read_header,
)
from ottla.protocol.messages import fetch, list_offsets
from ottla.protocol.offset_spec import OffsetSpec
from ottla.protocol.topic_partition import TopicPartition
from tests.sim.seams.loop import run
from tests.support.client.fake_cluster import FakeCluster
from tests.support.protocol.stamping import stamp

ORDERS = TopicPartition("orders", 0)
USERS = TopicPartition("users", 0)
NOW_MS = 1_000_000


class Logs:
    """Batches of topics with one partition, served by one broker."""

    def __init__(self, cluster: FakeCluster, *topics: str) -> None:
        self.batches: dict[str, list[bytes]] = {
            topic: [] for topic in topics or ("orders", "users")
        }
        self.begins = dict.fromkeys(self.batches, 0)
        cluster.leaders = {topic: [1] for topic in self.batches}
        # Named by name: the cluster gives all its topics one id.
        cluster.brokers[1].versions["Fetch"] = (4, 12)
        cluster.brokers[1].answers |= {"Fetch": self._fetch, "ListOffsets": self._list}

    def append(self, topic: str, batch: bytearray) -> None:
        stamp(batch, self.end(topic), 0)
        self.batches[topic].append(bytes(batch))

    def append_at(self, topic: str, *timestamps_ms: int) -> None:
        self.append(
            topic, build([Record(index, ms, None, b"v") for index, ms in enumerate(timestamps_ms)])
        )

    def append_marker(self, topic: str) -> None:
        marker = Marker(MarkerKind.COMMIT, coordinator_epoch=0)
        self.append(
            topic, build_marker(marker, producer_id=1, producer_epoch=0, timestamp_ms=NOW_MS)
        )

    def end(self, topic: str) -> int:
        batches = self.batches[topic]
        return read_header(batches[-1]).next_offset if batches else 0

    def _fetch(self, request: fetch.FetchRequest, version: int) -> fetch.FetchResponse:
        """The batch of the offset, and no more, as with the smallest limits."""
        (topic,) = request.topics
        (asked,) = topic.partitions
        assert asked.partition_max_bytes == 1
        later = [
            batch
            for batch in self.batches[topic.topic]
            if read_header(batch).next_offset > asked.fetch_offset
        ]
        result = fetch.PartitionResult(
            partition_index=0,
            error_code=0,
            high_watermark=self.end(topic.topic),
            aborted_transactions=None,
            records=later[0] if later else b"",
        )
        return fetch.FetchResponse(
            responses=(fetch.TopicResult(topic=topic.topic, partitions=(result,)),)
        )

    def _list(self, request: list_offsets.ListOffsetsRequest, version: int) -> Any:
        return list_offsets.ListOffsetsResponse(
            topics=tuple(
                list_offsets.TopicResult(
                    name=topic.name,
                    partitions=tuple(
                        list_offsets.PartitionResult(
                            partition_index=each.partition_index,
                            error_code=0,
                            offset=self.begins[topic.name]
                            if each.timestamp == OffsetSpec.EARLIEST
                            else self.end(topic.name),
                            timestamp=-1,
                        )
                        for each in topic.partitions
                    ),
                )
                for topic in request.topics
            )
        )


def lags_with(fill: Any, positions: Mapping[TopicPartition, int]) -> Outcomes[Lag]:
    async def tell() -> Outcomes[Lag]:
        async with FakeCluster() as cluster, cluster.router() as router:
            fill(Logs(cluster))
            return await lags(router, positions)

    return run(tell())


def test_lag_is_counted_in_records_and_by_the_first_unread_record() -> None:
    def fill(logs: Logs) -> None:
        logs.append_at("orders", 1_000, 2_000, 3_000)
        logs.append_at("orders", 4_000)
        logs.append_at("users", 5_000)

    found = lags_with(fill, {ORDERS: 1, USERS: 0})
    assert found == {ORDERS: Lag(4, 3, 2_000), USERS: Lag(1, 1, 5_000)}
    assert Lag(4, 3, 2_000).age_ms(now_ms=10_000) == 8_000


def test_requests_for_many_partitions_do_not_time_out_in_the_queue() -> None:
    topics = [f"topic-{number}" for number in range(300)]

    async def tell() -> Outcomes[Lag]:
        async with FakeCluster() as cluster, cluster.router(request_timeout_ms=500) as router:
            logs = Logs(cluster, *topics)
            told = cluster.brokers[1].answers["Fetch"]

            async def slowly(*asked: Any) -> Any:
                await asyncio.sleep(0.01)
                return told(*asked)

            cluster.brokers[1].answers["Fetch"] = slowly
            for topic in topics:
                logs.append_at(topic, 1_000)
            found = await lags(router, {TopicPartition(topic, 0): 0 for topic in topics})
            assert len(cluster.brokers[1].asked_for("Fetch")) == len(topics), "each asked once"
            return found

    assert set(run(tell()).values()) == {Lag(1, 1, 1_000)}


def test_a_reader_at_the_end_has_no_lag() -> None:
    found = lags_with(lambda logs: logs.append_at("orders", 1_000), {ORDERS: 1, USERS: 0})
    assert found == {ORDERS: Lag(1, 0, None), USERS: Lag(0, 0, None)}
    assert Lag(1, 0, None).age_ms(NOW_MS) == 0


def test_transaction_markers_are_no_lag_in_time() -> None:
    def fill(logs: Logs) -> None:
        logs.append_at("orders", 1_000)
        logs.append_marker("orders")
        logs.append_at("orders", 7_000)
        logs.append_at("users", 1_000)
        logs.append_marker("users")

    found = lags_with(fill, {ORDERS: 1, USERS: 1})
    assert found == {ORDERS: Lag(3, 2, 7_000), USERS: Lag(2, 1, None)}
    assert Lag(2, 1, None).age_ms(NOW_MS) is None


def test_deleted_records_count_and_the_first_remaining_one_gives_the_age() -> None:
    def fill(logs: Logs) -> None:
        logs.append_at("orders", 1_000, 2_000)
        logs.append_at("orders", 3_000)
        logs.begins["orders"] = 2

    assert lags_with(fill, {ORDERS: 0}) == {ORDERS: Lag(3, 3, 3_000)}


def test_a_record_from_the_future_has_age_zero() -> None:
    assert Lag(1, 1, NOW_MS + 5).age_ms(NOW_MS) == 0


def test_a_deleted_topic_has_an_error_and_the_others_have_lag() -> None:
    gone = TopicPartition("gone", 0)
    found = lags_with(lambda logs: logs.append_at("orders", 1_000), {gone: 3, ORDERS: 0})
    assert found[ORDERS] == Lag(1, 1, 1_000)
    assert isinstance(refused := found[gone], Refused)
    assert refused.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
