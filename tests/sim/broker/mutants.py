"""Bugs to plant in a broker: each breaks one promise that a careless change would break."""

from typing import Any

import pytest

from ottla.broker.handlers import produce
from ottla.broker.net.connection import Connection
from ottla.protocol.batch import read_header
from ottla.protocol.primitives import Uuid
from ottla.replication.append.appender import Appender, AppendResult
from ottla.replication.fetch.session import SessionItem
from ottla.replication.replica import Replica
from ottla.replication.replicas import Replicas
from ottla.storage.opening import recovery
from ottla.storage.producers import snapshot_format
from ottla.storage.producers.state import ProducerStates
from tests.sim.storage.mutants import Mutant


def reply_comes_before_the_flush(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(produce, "_must_flush", lambda append: False)


def producers_are_forgotten_in_a_restart(patch: pytest.MonkeyPatch) -> None:
    def forget(*args: Any, **named: Any) -> ProducerStates:
        end_offset = args[4]
        return ProducerStates(end_offset)

    patch.setattr(recovery, "rebuild_producers", forget)


def only_the_last_batch_of_a_producer_is_remembered(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(snapshot_format, "_rows_of", lambda entry: [entry])


def high_watermark_moves_before_the_append(patch: pytest.MonkeyPatch) -> None:
    append = Appender.append

    def promise_and_append(
        self: Appender, replica: Replica, batch: memoryview, **named: Any
    ) -> AppendResult:
        replica.partition.appended(replica.end_offset + read_header(batch).count)
        return append(self, replica, batch, **named)

    patch.setattr(Appender, "append", promise_and_append)


def replies_overtake_one_another(patch: pytest.MonkeyPatch) -> None:
    """Every request is handled at once, and every response is sent when it is there."""
    take = Connection._take

    def take_at_once(self: Connection, outcome: Any) -> None:
        if isinstance(outcome, list) and self._send:
            self._send.put(outcome)
        else:
            take(self, outcome)

    patch.setattr(Connection, "_is_busy", lambda self, frame: False)
    patch.setattr(Connection, "_take", take_at_once)


def deleted_partitions_stay_where_they_are(patch: pytest.MonkeyPatch) -> None:
    drop_topics = Replicas._drop_topics

    def drop_and_leave(self: Replicas, deleted: set[Uuid]) -> None:
        for replica in self.all:
            if replica.partition.topic_id in deleted:
                replica.log = None
        drop_topics(self, deleted)

    patch.setattr(Replicas, "_drop_topics", drop_and_leave)


def sessions_do_not_hear_of_what_was_appended(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SessionItem, "count", lambda self, amount: None)


MUTANTS = (
    Mutant(reply_comes_before_the_flush, range(20)),
    Mutant(producers_are_forgotten_in_a_restart, range(20)),
    Mutant(only_the_last_batch_of_a_producer_is_remembered, range(20)),
    Mutant(high_watermark_moves_before_the_append, range(20)),
    Mutant(replies_overtake_one_another, range(20)),
    Mutant(deleted_partitions_stay_where_they_are, range(10)),
    Mutant(sessions_do_not_hear_of_what_was_appended, range(10)),
)
