"""This broker, as the partitions of a node know it."""

from ottla.metadata.records import Broker
from ottla.metadata.values import Incarnation


class LocalBroker:
    """One per node. All of its partitions share it, and lead only under its current incarnation.

    The metadata log says which epoch this incarnation has: the record of a broker comes before the
    partitions that name its epoch. Before that, and after the session was lost, `incarnation` is
    None, and this broker leads nothing.
    """

    __slots__ = ("_epoch_min", "broker_id", "incarnation", "incarnation_id")

    def __init__(
        self, broker_id: int, incarnation_id: str, incarnation: Incarnation | None = None
    ) -> None:
        self.broker_id = broker_id
        self.incarnation_id = incarnation_id
        self.incarnation = incarnation
        # Earlier epochs of this incarnation ended with their sessions.
        self._epoch_min = 0

    def leads_as(self, leader: Incarnation | None) -> bool:
        """Whether this broker is the leader that a record names."""
        return leader is not None and leader == self.incarnation

    def follow(self, broker: Broker) -> None:
        """Takes a broker's record of the metadata log."""
        if (
            broker.broker_id == self.broker_id
            and broker.incarnation_id == self.incarnation_id
            and broker.epoch >= self._epoch_min
        ):
            self.incarnation = broker.incarnation if broker.is_live else None

    def lose_session(self, broker_epoch: int) -> None:
        """The session of this epoch has ended, whatever the metadata log still says."""
        self._epoch_min = broker_epoch + 1
        self.incarnation = None
