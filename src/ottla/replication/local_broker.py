"""This broker, as the partitions of a node know it."""

from ottla.metadata.values import Incarnation


class LocalBroker:
    """One per node. All of its partitions share it, and lead only under its current incarnation.

    `incarnation` is None before the broker has registered, and after its session was lost: then it
    leads nothing.
    """

    __slots__ = ("broker_id", "incarnation")

    def __init__(self, broker_id: int, incarnation: Incarnation | None = None) -> None:
        self.broker_id = broker_id
        self.incarnation = incarnation

    def is_(self, leader: Incarnation | None) -> bool:
        """Whether this is the leader that a record names."""
        return leader is not None and leader == self.incarnation
