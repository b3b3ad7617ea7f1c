"""Transactional producers: what they write, how they end it, and how they come to their own end."""

import asyncio
from contextlib import suppress

from ottla.protocol.topic_partition import TopicPartition
from tests.sim.broker.transactional_connection import CrashedError
from tests.sim.broker.transactional_history import Incarnation, Transaction
from tests.sim.broker.transactional_session import (
    AbortableError,
    FencedError,
    ProducerSession,
    Versions,
)
from tests.sim.broker.transactional_world import TransactionalWorld

TRANSACTIONS_PER_LIFE_MAX = 8
SENDS_MAX = 3
RECORDS_A_BATCH_MAX = 3
IDLE_MS_MAX = 4_000
TIMEOUTS_MS = (1_500, 4_000, 10_000)


class TransactionalProducer:
    """Incarnation after incarnation until the world is calm; then the last transaction ends."""

    def __init__(
        self, world: TransactionalWorld, name: str, transactional_id: str, *, version: int
    ) -> None:
        self.name = name
        self._world = world
        self._history = world.history
        self._transactional_id = transactional_id
        self._version = version
        self._entropy = world.fork(name)
        self._incarnations = 0
        self._values = 0
        self._does = "nothing"

    def __repr__(self) -> str:
        return f"{self.name}, version {self._version}, {self._does}"

    async def run(self) -> None:
        while not self._world.is_calm:
            session = self._new_session()
            try:
                await self._live(session)
            except (CrashedError, FencedError):
                pass
            finally:
                session.close()
            await asyncio.sleep(self._entropy.between(0, 1_500) / 1e3)
        self._world.producers_left -= 1

    async def abandon(self) -> None:
        """In peace: writes to a transaction and is no more. Nobody takes its id."""
        session = self._new_session()
        try:
            await session.init()
            # The topic that is deleted now and then may be gone.
            with suppress(AbortableError):
                await self._write(session, self._history.begin(session.incarnation))
        finally:
            session.close()

    def _new_session(self) -> ProducerSession:
        self._incarnations += 1
        incarnation: Incarnation = self._history.incarnation(
            f"{self.name}#{self._incarnations}",
            self._transactional_id,
            self._entropy.pick(TIMEOUTS_MS),
        )
        versions = Versions.of(self._version, self._entropy)
        return ProducerSession(self._world, self.name, incarnation, self._entropy, versions)

    async def _live(self, session: ProducerSession) -> None:
        self._does = "gets its id"
        await session.init()
        for _ in range(self._entropy.between(1, TRANSACTIONS_PER_LIFE_MAX)):
            if self._world.is_calm:
                return
            await self._transact(session)
            # Another producer may take its id meanwhile, or the id may expire.
            await self._pause(IDLE_MS_MAX if self._entropy.chance(0.1) else 300)

    async def _transact(self, session: ProducerSession) -> None:
        transaction = self._history.begin(session.incarnation)
        self._does = f"writes {transaction}"
        try:
            await self._write(session, transaction)
            await self._wait_or_crash(session)
            if self._entropy.chance(0.85):
                self._does = f"commits {transaction}"
                await session.end(transaction, is_committed=True)
                return
        except AbortableError:
            pass
        self._does = f"aborts {transaction}"
        await self._abort(session, transaction)

    async def _write(self, session: ProducerSession, transaction: Transaction) -> None:
        places = self._pick_places()
        if self._entropy.chance(0.5):
            await session.add(transaction, places)
        offset_at = self._entropy.below(2 * SENDS_MAX)
        for number in range(self._entropy.between(1, SENDS_MAX)):
            if number == offset_at:
                await session.commit_offsets(transaction, self._world.committed_places)
            together = places if self._entropy.chance(0.3) else [self._entropy.pick(places)]
            await session.add(transaction, together)
            values = {place: self._new_values(transaction) for place in together}
            for place, each in values.items():
                self._history.send(transaction, self._world.partition(place), each)
            await session.send(transaction, values)
            await self._pause(100)
        if self._entropy.chance(0.3):
            await session.commit_offsets(transaction, self._world.committed_places[:1])

    async def _wait_or_crash(self, session: ProducerSession) -> None:
        is_calm = self._world.is_calm
        # Nobody follows a producer that crashes in peace.
        if self._entropy.chance(0.4 if is_calm else 0.08):
            self._history.counts["abandoned"] += 1
            raise CrashedError
        if not is_calm and self._entropy.chance(0.1):
            # It is too late then, or nearly so.
            self._history.counts["asleep until the timeout"] += 1
            await asyncio.sleep(session.incarnation.timeout_ms / 1e3)

    async def _abort(self, session: ProducerSession, transaction: Transaction) -> None:
        transaction.abort("by its producer")
        try:
            await session.end(transaction, is_committed=False)
        except FencedError:
            if self._entropy.chance(0.5):
                raise
            session.must_renew = True
        if session.must_renew:
            await session.renew(transaction)

    def _pick_places(self) -> list[TopicPartition]:
        places = [place for place in self._world.places if self._entropy.chance(0.6)]
        fleeting = self._world.fleeting_place
        if fleeting is not None and self._entropy.chance(0.15):
            places.append(fleeting)
        return places or [self._entropy.pick(self._world.places)]

    def _new_values(self, transaction: Transaction) -> list[bytes]:
        values = []
        for _ in range(self._entropy.between(1, RECORDS_A_BATCH_MAX)):
            self._values += 1
            padding = b"." * self._entropy.pick((0, 0, 10, 300))
            head = f"{self.name}-{transaction.number}-{self._values}-"
            values.append(head.encode() + padding)
        return values

    async def _pause(self, most_ms: int) -> None:
        if not self._world.is_calm:
            await asyncio.sleep(self._entropy.between(0, most_ms) / 1e3)
