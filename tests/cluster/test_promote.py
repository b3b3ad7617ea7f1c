"""`ottla cluster promote`: a broker that was alone becomes the first one of a cluster.

The ZooKeeper here is a single server. It counts transactions from 1, so its broker epochs are far
below those of the promoted broker.
"""

import asyncio
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from ottla.broker.node.metadata_store import EMBEDDED
from ottla.cli.cluster.promote import execute, next_step, read_broker
from ottla.cli.cluster.zookeeper_servers import ZooKeeperServers
from ottla.cli.shared.failure import Failure
from ottla.errors import StoreUnusable
from ottla.metadata.embedded.store import EmbeddedStore
from ottla.metadata.image import Image
from ottla.metadata.rebase import rebased
from ottla.metadata.records import ControllerStarted, Quota
from ottla.metadata.store import Registration
from ottla.metadata.values import QuotaEntity, QuotaEntityKind
from ottla.metadata.zookeeper.promotion import Found, Promotion, look
from ottla.metadata.zookeeper.store import ZooKeeperStore
from ottla.metadata.zookeeper.znodes import Operation
from ottla.seams.clock import RealClock
from ottla.seams.entropy import RealEntropy
from ottla.seams.files import RealFiles
from tests.support.broker_process import BrokerProcess
from tests.support.cli.run_command import at, ottla
from tests.support.cluster_processes import ClusterProcesses
from tests.support.transactional_producer import TransactionalProducer
from tests.support.zookeeper import access_to, new_chroot, running_servers, tell

WAIT_S = 60.0
SETTINGS = {"ottla.disk.reserve.bytes": "0", "offsets.topic.num.partitions": "2"}
SETTINGS["transaction.state.log.num.partitions"] = "2"
VALUES = [f"record {number}" for number in range(40)]
# Far above the number of any transaction of the ZooKeeper server.
STARTS = 1_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServers]:
    with running_servers(tmp_path_factory.mktemp("zookeeper"), 1) as servers:
        yield servers


@pytest.fixture
def connect(server: ZooKeeperServers) -> str:
    return server.connect_string + new_chroot()


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data of a stopped broker: topics, records, a group, transactions, configs, a quota."""
    data = tmp_path_factory.mktemp("single") / "data"
    with BrokerProcess(data, SETTINGS):
        pass

    async def count_up() -> None:
        store = EmbeddedStore.open(RealFiles(), str(data), RealClock())
        for _ in range(STARTS):
            await store.register(
                Registration(
                    broker_id=1, incarnation_id="x", endpoints=(), rack=None, host="localhost"
                )
            )
        fence = await store.campaign()
        user = (QuotaEntity(QuotaEntityKind.USER, "anna"),)
        started = ControllerStarted(fence.epoch, 1)
        await store.append([started, Quota(user, "producer_byte_rate", 1e9)], fence)
        await store.close()

    asyncio.run(count_up())
    with BrokerProcess(data, SETTINGS) as broker:
        _fill(broker.bootstrap_servers)
        broker.stop()
    return data


@pytest.fixture
def data(single: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(single, tmp_path / "data"))


def _fill(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    created = admin.create_topics(
        [
            NewTopic("plain", 2, 1, config={"retention.ms": "123456789"}),
            NewTopic("paid", 1, 1),
        ]
    )
    for future in created.values():
        future.result(WAIT_S)
    producer = Producer({"bootstrap.servers": servers, "acks": "all"})
    for number, value in enumerate(VALUES):
        producer.produce("plain", value, partition=number % 2)
    assert producer.flush(WAIT_S) == 0
    with closing(Consumer({"bootstrap.servers": servers, "group.id": "readers"})) as consumer:
        consumer.commit(offsets=[TopicPartition("plain", 1, 7)], asynchronous=False)
    transactional = TransactionalProducer(servers, "payments")
    for value, ends in (("paid", transactional.commit), ("refused", transactional.abort)):
        transactional.begin()
        transactional.write("paid", 0, [value], 1_700_000_000_000)
        ends()


def contents(servers: str) -> dict[str, Any]:
    """All that `_fill` wrote, as a client sees it."""
    settings = {
        "bootstrap.servers": servers,
        "group.id": "readers",
        "enable.auto.commit": "false",
        "enable.partition.eof": "true",
        "isolation.level": "read_committed",
    }
    found: dict[str, Any] = {"records": []}
    with closing(Consumer(settings)) as consumer:
        committed = consumer.committed([TopicPartition("plain", 1)], timeout=WAIT_S)
        found["offset"] = committed[0].offset
        parts = [TopicPartition("plain", each, 0) for each in (0, 1)]
        parts.append(TopicPartition("paid", 0, 0))
        consumer.assign(parts)
        ended = 0
        while ended < len(parts):
            message = consumer.poll(WAIT_S)
            assert message is not None
            if message.error() is None:
                found["records"].append((message.topic(), message.value().decode()))
            else:
                ended += 1
    found["records"].sort()
    admin = AdminClient({"bootstrap.servers": servers})
    resource = ConfigResource(ConfigResource.Type.TOPIC, "plain")
    found["retention"] = (
        admin.describe_configs([resource])[resource].result(WAIT_S)["retention.ms"].value
    )
    found["cluster"] = admin.describe_cluster().result(WAIT_S).cluster_id
    return found


EXPECTED = sorted([("paid", "paid"), *(("plain", value) for value in VALUES)])


def test_a_promoted_broker_has_everything_and_others_join_it(data: Path, connect: str) -> None:
    with BrokerProcess(data, SETTINGS) as broker:
        alone = contents(broker.bootstrap_servers)
        broker.stop()
    assert (alone["records"], alone["offset"], alone["retention"]) == (EXPECTED, 7, "123456789")

    arguments = ("cluster", "promote", "--data", str(data), "--zookeeper", connect)
    planned = ottla(*arguments, "-o", "json")
    assert planned.exit_code == 0
    assert "nothing was changed" in planned.stderr
    assert '"topics": 4' in planned.stdout
    with BrokerProcess(data, SETTINGS) as broker:
        refused = ottla(*arguments, "--yes")
        assert refused.exit_code == 1
        assert "is in use by" in refused.stderr
        broker.stop()

    assert ottla(*arguments, "--yes").exit_code == 0
    repeated = ottla(*arguments, "--yes")
    assert repeated.exit_code == 0
    assert "nothing to do" in repeated.stderr
    with pytest.raises(RuntimeError):
        BrokerProcess(data, SETTINGS)

    member = {**SETTINGS, "zookeeper.session.timeout.ms": "6000"}
    with BrokerProcess(data, member, ("--zookeeper", connect)) as first:
        assert contents(first.bootstrap_servers) == alone
        second_data = data.parent / "second"
        with BrokerProcess(
            second_data, {**member, "node.id": "2"}, ("--zookeeper", connect)
        ) as second:
            admin = AdminClient({"bootstrap.servers": second.bootstrap_servers})
            created = admin.create_topics([NewTopic("both", 1, 2)])
            created["both"].result(WAIT_S)
            producer = Producer({"bootstrap.servers": second.bootstrap_servers, "acks": "all"})
            producer.produce("both", "hello")
            assert producer.flush(WAIT_S) == 0
            second.stop()
        first.stop()


def test_a_promoted_broker_is_dispensable_once_its_topics_have_three_replicas(
    data: Path, connect: str
) -> None:
    arguments = ("cluster", "promote", "--data", str(data), "--zookeeper", connect, "--yes")
    assert ottla(*arguments).exit_code == 0
    directory = data.parent
    data.rename(directory / "broker-1")
    with ClusterProcesses(directory, connect) as cluster:
        before = contents(cluster.bootstrap_servers)
        assert (before["records"], before["offset"]) == (EXPECTED, 7)
        replicated = ottla(
            *("topic", "replicate", "--all", "--factor", "3", "--yes", "-o", "name"),
            *at(cluster.bootstrap_servers),
        )
        assert replicated.exit_code == 0, replicated.stderr
        cluster.wait_for_all_isrs()
        topics = cluster.admin.list_topics(timeout=WAIT_S).topics
        assert {"plain", "paid", "__consumer_offsets", "__transaction_state"} <= topics.keys()
        assert all(
            sorted(each.replicas) == [1, 2, 3]
            for topic in topics.values()
            for each in topic.partitions.values()
        )
        cluster.kill(1)
        cluster.wait_until_led_by_others(1)
        assert contents(cluster.bootstrap_servers) == before
        transactional = TransactionalProducer(cluster.bootstrap_servers, "payments")
        transactional.begin()
        transactional.write("paid", 0, ["paid later"], 1_700_000_000_000)
        transactional.commit()
        after = contents(cluster.bootstrap_servers)["records"]
        assert after == sorted([*EXPECTED, ("paid", "paid later")])


class Killed(BaseException):
    """The process ended here."""


class Countdown:
    """Ends the process before the operation with this number."""

    def __init__(self, operations: int) -> None:
        self.left = operations

    def step(self) -> None:
        if self.left == 0:
            raise Killed
        self.left -= 1


class KilledZnodes:
    """Passes everything on; writes count."""

    def __init__(self, znodes: Any, countdown: Countdown) -> None:
        self._znodes = znodes
        self._countdown = countdown

    def __getattr__(self, name: str) -> Any:
        return getattr(self._znodes, name)

    async def multi(self, operations: Sequence[Operation]) -> None:
        self._countdown.step()
        await self._znodes.multi(operations)


class KilledFiles:
    """Passes everything on; what changes a directory counts."""

    def __init__(self, countdown: Countdown) -> None:
        self._files = RealFiles()
        self._countdown = countdown

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._files, name)
        if name not in ("create", "rename", "remove", "sync_dir"):
            return found

        def counted(*arguments: Any) -> Any:
            self._countdown.step()
            return found(*arguments)

        return counted


def test_a_promotion_that_is_killed_at_any_step_is_completed_by_a_repeat(
    single: Path, tmp_path: Path, server: ZooKeeperServers
) -> None:
    reached: list[str] = []

    async def story(clients: Any) -> None:
        steps = 0
        while True:
            data = Path(shutil.copytree(single, tmp_path / f"data-{steps}"))
            where = server.connect_string + new_chroot()
            znodes = await clients.client(access_to(where))
            countdown = Countdown(steps)
            before = await read_broker(RealFiles(), str(data))
            assert before.image is not None
            expected = rebased(before.image)
            is_killed = False
            try:
                await execute(
                    KilledZnodes(znodes, countdown),
                    KilledFiles(countdown),  # type: ignore[arg-type]
                    RealEntropy(),
                    before,
                    where,
                )
            except Killed:
                is_killed = True
            found = await look(znodes)
            try:
                assert EMBEDDED.home(RealFiles(), [str(data)]) == str(data)
                starts_alone = True
            except StoreUnusable:
                starts_alone = False
            # Never both.
            assert not (starts_alone and found.has_nodes)
            if starts_alone:
                after = await read_broker(RealFiles(), str(data))
                assert after.image == before.image
            if starts_alone:
                reached.append("alone")
            else:
                reached.append("cluster" if found.has_nodes else "stamped")
            if not found.has_nodes and found.promotion is not None:
                # A broker that comes too early creates nothing.
                with pytest.raises(StoreUnusable):
                    await ZooKeeperStore(znodes).load()

            again = await read_broker(RealFiles(), str(data))
            await execute(znodes, RealFiles(), RealEntropy(), again, where)
            image = Image.of(await ZooKeeperStore(znodes).load())
            assert image.snapshot().records == expected
            assert (await look(znodes)).cluster_id == before.meta.cluster_id
            with pytest.raises(StoreUnusable):
                EMBEDDED.home(RealFiles(), [str(data)])
            shutil.rmtree(data)
            await znodes.close()
            if not is_killed:
                return
            steps += 1

    tell(story)
    assert set(reached) == {"alone", "stamped", "cluster"}
    assert reached == sorted(reached, key=["alone", "stamped", "cluster"].index)


def test_what_cannot_be_promoted_is_refused(data: Path, connect: str) -> None:
    arguments = ("cluster", "promote", "--data", str(data), "--yes", "--zookeeper")
    other = connect + "/other"
    with BrokerProcess(data.parent / "new", SETTINGS, ("--zookeeper", other)) as broker:
        broker.stop()
    refused = ottla(*arguments, other)
    assert refused.exit_code == 1
    assert "only into a chroot without one" in refused.stderr
    missing = ottla("cluster", "promote", "--data", str(data.parent / "no"), "--zookeeper", other)
    assert missing.exit_code == 4
    bad = ottla(*arguments, "127.0.0.1:1/x", "--set", "zookeeper.connection.timeout.ms=500")
    assert bad.exit_code == 3
    # Nothing has changed.
    with BrokerProcess(data, SETTINGS) as broker:
        broker.stop()
    assert ottla(*arguments, connect).exit_code == 0
    wrong = ottla(*arguments, connect + "/wrong")
    assert wrong.exit_code == 1
    assert "name that ZooKeeper, with its chroot" in wrong.stderr


def test_another_attempt_is_not_published(data: Path) -> None:
    broker = asyncio.run(read_broker(RealFiles(), str(data)))
    assert broker.image is not None
    mine, other = "a" * 32, "b" * 32
    staged = Promotion(1, broker.meta.cluster_id, other, 1, 1)
    stamped = type(broker)(broker.data, broker.meta, None, [mine])
    with pytest.raises(Failure):
        next_step(stamped, Found(None, has_nodes=False, promotion=staged), "zookeeper")
    copied = Found(broker.meta.cluster_id, has_nodes=True, promotion=None)
    with pytest.raises(Failure, match="still has"):
        next_step(broker, copied, "zookeeper")
