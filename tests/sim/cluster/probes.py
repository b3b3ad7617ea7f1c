"""Probes in every broker of a simulation: they tell the oracle what the brokers do."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from ottla.broker.node import node
from ottla.metadata.publisher import Publisher
from ottla.metadata.store import Entry
from ottla.replication.append.appender import Appender, AppendResult
from ottla.replication.replica import Replica
from tests.sim.cluster.oracle import Oracle
from tests.sim.seams.owner import OWNER


@contextmanager
def probing(oracle: Oracle) -> Iterator[None]:
    """All brokers of this process are probed inside the context."""
    # Freezing is for a process that has one node, not one after another.
    with patch.object(node, "gc"), _images_probed(oracle), _appends_probed(oracle):
        yield


@contextmanager
def _images_probed(oracle: Oracle) -> Iterator[None]:
    load, publish = Publisher.load, Publisher._publish

    async def load_and_tell(self: Publisher) -> None:
        await load(self)
        oracle.loaded(_process(), self.image)

    async def tell_and_publish(self: Publisher, entry: Entry) -> None:
        oracle.applied(_process(), self.image, entry)
        await publish(self, entry)

    with (
        patch.object(Publisher, "load", load_and_tell),
        patch.object(Publisher, "_publish", tell_and_publish),
    ):
        yield


@contextmanager
def _appends_probed(oracle: Oracle) -> Iterator[None]:
    append, append_together = Appender.append, Appender.append_together

    def append_and_tell(self: Appender, replica: Replica, *args: Any, **named: Any) -> AppendResult:
        result = append(self, replica, *args, **named)
        if result.record_count:
            _tell(oracle, replica, result.leader_epoch)
        return result

    def append_together_and_tell(self: Appender, replica: Replica, *args: Any, **named: Any) -> Any:
        result = append_together(self, replica, *args, **named)
        if result is not None:
            _tell(oracle, replica, replica.partition.leader_epoch)
        return result

    with (
        patch.object(Appender, "append", append_and_tell),
        patch.object(Appender, "append_together", append_together_and_tell),
    ):
        yield


def _tell(oracle: Oracle, replica: Replica, leader_epoch: int) -> None:
    partition = replica.partition
    oracle.appended(_process(), (partition.topic_id, partition.index), leader_epoch)


def _process() -> str:
    """The process whose code runs."""
    owner = OWNER.get()
    return owner.name if owner is not None else "simulation"
