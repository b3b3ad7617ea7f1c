"""A member of a group, of either protocol. It commits what it has written to its history."""

import time

from tests.cluster.chaos.clients.group import GroupConsumer
from tests.cluster.chaos.clients.process import Client, run
from tests.cluster.chaos.history import Partition

RECORDS_MAX = 100
COMMIT_EVERY_S = 0.5


class Member:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._positions: dict[Partition, int] = {}
        self._consumer = GroupConsumer(client, self._commit_before_revocation)

    def run(self) -> None:
        due_s = 0.0
        while not self._client.is_stopping:
            for record in self._consumer.poll(RECORDS_MAX):
                self._positions[record.where] = record.offset + 1
            if self._positions and time.monotonic() >= due_s:
                self._commit()
                due_s = time.monotonic() + COMMIT_EVERY_S
        self._commit()
        self._consumer.close()

    def _commit(self) -> None:
        if self._positions and self._consumer.commit(self._positions):
            self._positions = {}

    def _commit_before_revocation(self) -> None:
        """What it could not commit, whoever reads the partition next will read again."""
        self._commit()
        self._positions = {}


if __name__ == "__main__":
    run(lambda client: Member(client).run())
