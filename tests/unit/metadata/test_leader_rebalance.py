"""The controller has preferred replicas lead again, as its settings say."""

import asyncio

import pytest

from ottla.metadata.controller_duties import UPDATED_PER_ENTRY
from ottla.metadata.memory import MemoryEnsemble
from ottla.metadata.records import ControllerStarted, Topic
from ottla.metadata.values import Incarnation
from ottla.settings.broker import BrokerSettings
from ottla.settings.sources import load
from tests.support.metadata.controller_peers import Peer, settle, story
from tests.support.metadata.sample_records import broker, partition, registration, topic_id


def rebalancing(**given: str) -> BrokerSettings:
    """The leaders are checked every ten seconds."""
    named = {name.replace("_", "."): value for name, value in given.items()}
    every = {"leader.imbalance.check.interval.seconds": "10", **named}
    return load(given=every, environment={}, file=None)


async def led_elsewhere(ensemble: MemoryEnsemble, count: int, of: int) -> None:
    """Broker 1 is the preferred replica of partitions of which broker 2 leads some."""
    store = ensemble.connect()
    epochs = [await ensemble.connect().register(registration(number)) for number in (1, 2)]
    one, two = Incarnation(1, epochs[0]), Incarnation(2, epochs[1])
    fence = await store.campaign()
    await store.append([ControllerStarted(fence.epoch)], fence)
    await store.append([broker(*each, incarnation_id="first") for each in (one, two)], fence)
    await store.append([Topic("orders", topic_id(1))], fence)
    for begin in range(0, of, 400):
        await store.append(
            [
                partition(
                    index=index,
                    replicas=(1, 2),
                    leader=two if index < count else one,
                    isr=(one, two),
                    min_isr=1,
                )
                for index in range(begin, min(of, begin + 400))
            ],
            fence,
        )
    await store.close()


def leaders(peer: Peer) -> list[int]:
    return [
        each.leader.broker_id
        for each in peer.image.partitions(topic_id(1))
        if each.leader is not None
    ]


def test_preferred_replicas_lead_again_after_the_check_interval() -> None:
    async def steps(ensemble: MemoryEnsemble) -> None:
        count = UPDATED_PER_ENTRY + 1
        await led_elsewhere(ensemble, count, count + 1)
        first = Peer(ensemble, 3, settings=rebalancing())
        await first.run()
        await asyncio.sleep(9)
        assert leaders(first) == [2] * count + [1]
        head = first.image.offset
        await asyncio.sleep(2)
        assert leaders(first) == [1] * (count + 1)
        assert first.image.offset - head == 2
        await asyncio.sleep(20)
        assert first.image.offset - head == 2
        first.check()

    story(steps)


@pytest.mark.parametrize(
    ("count", "given", "is_restored"),
    [
        (1, {}, False),
        (2, {}, True),
        (2, {"auto_leader_rebalance_enable": "false"}, False),
        (1, {"leader_imbalance_per_broker_percentage": "9"}, True),
        (2, {"leader_imbalance_per_broker_percentage": "20"}, False),
        (2, {"leader_imbalance_check_interval_seconds": "60"}, False),
    ],
)
def test_preferred_leaders_come_back_as_the_settings_say(
    count: int, given: dict[str, str], is_restored: bool
) -> None:
    async def steps(ensemble: MemoryEnsemble) -> None:
        await led_elsewhere(ensemble, count, 10)
        first = Peer(ensemble, 3, settings=rebalancing(**given))
        await first.run()
        await asyncio.sleep(30)
        assert (leaders(first) == [1] * 10) is is_restored
        first.check()

    story(steps)


def test_a_deposed_controller_restores_no_leaders() -> None:
    async def steps(ensemble: MemoryEnsemble) -> None:
        await led_elsewhere(ensemble, 5, 10)
        first = Peer(ensemble, 3, settings=rebalancing())
        await first.run()
        await settle()
        other = ensemble.connect()
        ensemble.expire(first.store)
        fence = ensemble._try_election(other)
        assert fence is not None
        await other.append([ControllerStarted(fence.epoch)], fence)
        await asyncio.sleep(30)
        assert leaders(first) == [2] * 5 + [1] * 5
        first.check()

    story(steps)
