"""A client's connection to the simulated broker, with the life of the machine at its opening."""

import asyncio
from typing import cast

from tests.sim.broker.machine import HOST, PORT, Machine
from tests.sim.request_line import REPLY_TIMEOUT_S, RequestLine


class Line(RequestLine):
    """`life` and `power_losses` are the machine's at its opening."""

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self.life = machine.lives
        self.power_losses = machine.power_losses

    @classmethod
    async def open(cls, machine: Machine, host: str) -> "Line":
        """A new connection from a client's host. OSError or TimeoutError if nobody answers."""
        net = machine.network.host(host)
        async with asyncio.timeout(REPLY_TIMEOUT_S):
            line = await net.connect(lambda: cls(machine), HOST, PORT)
        return cast("Line", line)
