"""A node in its cluster while it runs: lost sessions, the applied metadata offset, draining."""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial

from ottla.broker.event_log import Logger
from ottla.broker.node.offline_logs import offline_partitions
from ottla.broker.node.registration import BrokerRegistration
from ottla.metadata.applied_offset import AppliedOffset
from ottla.metadata.image import Image
from ottla.metadata.publisher import Publisher
from ottla.metadata.store import MetadataStore
from ottla.metadata.values import BrokerState, PartitionId
from ottla.metrics.meters import BrokerMeter
from ottla.replication.replicas import Replicas
from ottla.seams.threads import Threads

SAVE_INTERVAL_S = 5.0
# How long a broker that stops waits for others to take over its leaderships.
DRAIN_TIMEOUT_S = 10.0


async def stay_registered(
    registration: BrokerRegistration,
    store: MetadataStore,
    replicas: Replicas,
    logger: Logger,
    meter: BrokerMeter,
    *,
    is_lost: bool = False,
) -> None:
    """Registers again whenever the session is lost, at once if it `is_lost`; does not end."""
    while True:
        if not is_lost:
            await store.until_unregistered()
        is_lost = False
        # Others may lead its partitions by now. What it has acknowledged it still has.
        replicas.lose_session(registration.broker_epoch)
        meter.sessions_lost += 1
        logger.warning("session lost", broker_epoch=registration.broker_epoch)
        await registration.register_again(store, offline_partitions(replicas))
        logger.info("registered again", broker_epoch=registration.broker_epoch)


async def drain(
    broker_id: int, store: MetadataStore, publisher: Publisher, replicas: Replicas, logger: Logger
) -> None:
    """Controlled shutdown: waits, for a limited time, until the broker has left its ISRs.

    Others lead then what it led. It stays where no other replica is in sync, and at once if no
    other broker is live.
    """
    others = (each for each in publisher.image.brokers.values() if each.broker_id != broker_id)
    if not any(each.is_live for each in others):
        return

    here = [PartitionId(each.partition.topic_id, each.partition.index) for each in replicas]
    try:
        async with asyncio.timeout(DRAIN_TIMEOUT_S):
            await store.drain()
            await publisher.until(lambda image: is_drained(image, broker_id, here))
    except TimeoutError:
        logger.warning("leaderships not handed over", seconds=DRAIN_TIMEOUT_S)


def is_drained(image: Image, broker_id: int, partitions: Iterable[PartitionId]) -> bool:
    """Whether a draining broker is out of the ISRs of these partitions that have other members."""
    if image.brokers[broker_id].state not in (BrokerState.DRAINING, BrokerState.GONE):
        return False
    for where in partitions:
        partition = image.partition(*where)
        if partition is None or len(partition.isr) < 2:
            continue
        if any(member.broker_id == broker_id for member in partition.isr):
            return False
    return True


async def keep_saved(applied: AppliedOffset, current: Callable[[], int], threads: Threads) -> None:
    """Saves the current offset every few seconds, in a thread; does not end."""
    while True:
        await asyncio.sleep(SAVE_INTERVAL_S)
        try:
            await threads.run(partial(applied.save, current()))
        except OSError:
            continue  # a full disk, for example; an older offset is good enough
