"""Clients at work while things go wrong, each of which must come to its end once nothing does."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from tests.sim.broker.nemesis import Nemesis

# How long it may take, once nothing more goes wrong, until all is as it should be.
RECOVERY_S_MAX = 120.0


class Client(Protocol):
    """Works until it has done its part; what it shows of itself says how far it is."""

    @property
    def name(self) -> str: ...

    async def run(self) -> None: ...


async def work_against(nemesis: Nemesis, clients: Sequence[Client], steps: int) -> None:
    """AssertionError if one is not at its end in time."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(client.run(), name=client.name) for client in clients]
        await nemesis.run(steps)
        await asyncio.wait(tasks, timeout=RECOVERY_S_MAX)
        late = [
            repr(client) for client, task in zip(clients, tasks, strict=True) if not task.done()
        ]
        assert not late, f"not at their end in {RECOVERY_S_MAX} s: {late}"
