"""Brokers that campaign, append and follow, while they crash, are cut off, and the servers fail."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from ottla.metadata.image import Image
from ottla.metadata.records import Config
from ottla.metadata.store import EntriesGone, Fence, Fenced, Loaded, MetadataStore, Registration
from ottla.metadata.values import ResourceKind
from ottla.metadata.zookeeper.store import ZooKeeperStore
from tests.sim.ensemble.audit import Claims, Truth
from tests.sim.ensemble.client import SimZnodes
from tests.sim.ensemble.servers import SimEnsemble
from tests.sim.seams.entropy import SimEntropy
from tests.sim.seams.loop import run
from tests.support.metadata.sample_records import registration

BROKERS = 3
FAULTS = 40
SESSION_TIMEOUT_S = 2.0
HEALED_WITHIN_S = 60.0
LOST_WRITES = 0.05
# How long it may take after healing until every broker is registered.
REGISTERED_S_MAX = 60.0


class Process:
    """One life of a broker."""

    def __init__(self, broker: "Broker", ensemble: SimEnsemble, entropy: SimEntropy) -> None:
        self._broker = broker
        self._entropy = entropy
        self._claims = broker.claims
        self.client: SimZnodes = ensemble.client(broker.link)
        self.client.lost_writes = LOST_WRITES
        self.store = ZooKeeperStore(self.client)
        self.image = Image()
        self.broker_epoch = -1
        self.leads = False
        self._appended = 0
        self._tasks = [
            asyncio.get_running_loop().create_task(step(), name=step.__name__)
            for step in (self._register, self._follow, self._load_now_and_then, self._lead)
        ]

    async def _register(self) -> None:
        while True:
            before = max(self._claims.broker_epochs, default=-1)
            epoch = await self.store.register(self._broker.next_registration())
            if epoch <= before:
                raise AssertionError(f"broker epoch {epoch} after {before}")
            self._claims.broker_epochs.append(epoch)
            self.broker_epoch = epoch
            await self.store.until_unregistered()

    async def _follow(self) -> None:
        while True:
            self.image = Image.of(await self._load())
            try:
                async for entry in self.store.follow(self.image.offset + 1):
                    self._claims.follow(entry)
                    self.image.replay(entry)
            except EntriesGone:
                continue

    async def _load_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(self._entropy.between(0, 4_000) / 1e3)
            await self._load()

    async def _load(self) -> Loaded:
        committed = max(self._claims.acknowledged, default=-1)
        loaded = await self.store.load()
        self._claims.load(committed, loaded)
        return loaded

    async def _lead(self) -> None:
        while True:
            fence = await self.store.campaign()
            self._claims.fences.append(fence.epoch)
            self.leads = True
            try:
                started = await self._append(fence)
                while True:
                    await asyncio.sleep(self._entropy.between(0, 300) / 1e3)
                    await self._append(fence)
                    # Not before it has all entries of earlier controllers.
                    if self._entropy.chance(0.15) and self.image.offset >= started:
                        await self._save(fence)
            except Fenced:
                self.leads = False

    async def _append(self, fence: Fence) -> int:
        self._appended += 1
        name = f"{self._broker.name}-{self._appended}"
        try:
            offset = await self.store.append([Config(ResourceKind.BROKER, "", name, "1")], fence)
        except Fenced:
            self._claims.fenced.append(name)
            raise
        if offset in self._claims.acknowledged:
            raise AssertionError(f"offset {offset} was given twice")
        self._claims.acknowledged[offset] = name
        return offset

    async def _save(self, fence: Fence) -> None:
        snapshot = self.image.snapshot()
        # Another controller may be elected meanwhile.
        await asyncio.sleep(self._entropy.between(0, 2_000) / 1e3)
        await self.store.save(snapshot, fence)
        self._claims.saved.append((snapshot.offset, fence.epoch))

    def kill(self) -> None:
        self.check()
        for task in self._tasks:
            task.cancel()
        self.client.kill()

    def check(self) -> None:
        """Raises the error of a task that has ended."""
        for task in self._tasks:
            if task.done():
                task.result()


class Broker:
    """A broker's machine, which outlives its processes."""

    def __init__(
        self, number: int, ensemble: SimEnsemble, claims: Claims, entropy: SimEntropy
    ) -> None:
        self.number = number
        self.claims = claims
        self.link = ensemble.link()
        self._ensemble = ensemble
        self._entropy = entropy
        self._incarnations: list[str] = []
        self._lives = 0
        self.process: Process | None = None
        self.start()

    @property
    def name(self) -> str:
        return f"{self.number}.{self._lives}"

    @property
    def leads(self) -> bool:
        """As far as its process knows."""
        return self.process is not None and self.process.leads

    def next_registration(self) -> Registration:
        former = tuple(self._incarnations)
        self._incarnations.append(f"{self.name}.{len(former)}")
        return replace(
            registration(self.number), incarnation_id=self._incarnations[-1], replaces=former
        )

    def start(self) -> None:
        if self.process is None:
            self._lives += 1
            entropy = self._entropy.fork(f"life {self._lives}")
            self.process = Process(self, self._ensemble, entropy)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process = None


class Scenario:
    """One seed."""

    def __init__(self, seed: int) -> None:
        self._entropy = SimEntropy(f"ensemble {seed}")
        self.ensemble = SimEnsemble(
            self._entropy.fork("servers"), session_timeout_s=SESSION_TIMEOUT_S
        )
        self.claims = Claims()
        self._brokers: list[Broker] = []

    def run(self) -> str:
        """The hash of all that happened."""
        run(self._run(), self._entropy.fork("loop"))
        return self.ensemble.trace.hash()

    async def _run(self) -> None:
        self._brokers = [
            Broker(number, self.ensemble, self.claims, self._entropy.fork(f"broker {number}"))
            for number in range(BROKERS)
        ]
        for _ in range(FAULTS):
            await asyncio.sleep(self._entropy.between(1, 4_000) / 1e3)
            self._fault()
            for broker in self._brokers:
                if broker.process is not None:
                    broker.process.check()
        await self._heal()
        for broker in self._brokers:
            broker.kill()

    def _fault(self) -> None:
        leader = next((each for each in self._brokers if each.leads), self._brokers[0])
        broker = self._entropy.pick([leader, *self._brokers])
        cut, heal = broker.link.cut, broker.link.heal
        faults: list[Callable[[], None]] = [
            broker.kill,
            broker.start,
            broker.start,
            cut,
            lambda: cut(to_servers=False),
            lambda: cut(from_servers=False),
            heal,
            heal,
            lambda: self.ensemble.change_leader(self._entropy.between(1, 8_000) / 1e3),
            self._lag,
        ]
        if broker.process is not None:
            client = broker.process.client
            faults += [client.drop_connection, lambda: self.ensemble.expire(client)]
        self._entropy.pick(faults)()

    def _lag(self) -> None:
        server = self._entropy.pick(self.ensemble.servers)
        server.lag_us_max = self._entropy.pick((0, 20_000, 1_000_000, 5_000_000))

    async def _heal(self) -> None:
        """Afterwards somebody can append, everybody sees it, and everybody is registered."""
        for server in self.ensemble.servers:
            server.lag_us_max = 20_000
        for broker in self._brokers:
            broker.link.heal()
            broker.start()
        before = len(self.claims.acknowledged)
        await self._until(lambda: len(self.claims.acknowledged) > before + 5)
        target = max(self.claims.acknowledged)
        processes = [broker.process for broker in self._brokers if broker.process is not None]
        await self._until(lambda: all(each.image.offset >= target for each in processes))
        store = self.ensemble.connect()
        self.claims.load(max(self.claims.acknowledged), await store.load())
        await self._check_registered(store)
        self.claims.check(Truth.of(self.ensemble.log))

    async def _check_registered(self, store: MetadataStore) -> None:
        """A broker whose session has just ended registers again."""
        registered: list[tuple[int, int]] = []
        expected: list[tuple[int, int]] = []
        try:
            async with asyncio.timeout(REGISTERED_S_MAX):
                while True:
                    present = await anext(store.registered_brokers())
                    registered = [each.incarnation for each in present]
                    expected = [
                        (broker.number, broker.process.broker_epoch)
                        for broker in self._brokers
                        if broker.process is not None
                    ]
                    if registered == expected:
                        return
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise AssertionError(f"{registered} are registered, and not {expected}") from None

    async def _until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(HEALED_WITHIN_S):
            while not condition():
                for broker in self._brokers:
                    if broker.process is not None:
                        broker.process.check()
                await asyncio.sleep(0.1)
