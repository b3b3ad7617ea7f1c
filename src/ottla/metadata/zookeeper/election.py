"""The election of the controller in ZooKeeper."""

import asyncio
from functools import partial
from typing import NamedTuple

from ottla.metadata.store import Fence
from ottla.metadata.zookeeper.entries import required
from ottla.metadata.zookeeper.layout import (
    CONTROLLER,
    CONTROLLER_EPOCH,
    HEAD,
    read_number,
    write_number,
)
from ottla.metadata.zookeeper.term import Term
from ottla.metadata.zookeeper.znodes import (
    ConnectionLost,
    Create,
    Operation,
    Refused,
    SetData,
    Znode,
    Znodes,
    fresh,
)


class _State(NamedTuple):
    controller: Znode | None
    epoch: Znode
    head: Znode
    session_id: int

    @property
    def is_mine(self) -> bool:
        return self.controller is not None and self.controller.owner == self.session_id

    def term(self) -> Term:
        return Term(
            Fence(read_number(CONTROLLER_EPOCH, self.epoch.data)),
            self.epoch.version,
            read_number(HEAD, self.head.data),
            self.head.version,
        )


async def campaign(znodes: Znodes, description: bytes) -> Term:
    """Waits while another session is the controller, and then begins a term of this one.

    `description` becomes the data of /controller.
    """
    changed = asyncio.Event()
    # The version of /controller_epoch that the last attempt would have led to.
    attempted: int | None = None
    while True:
        changed.clear()
        state = await fresh(znodes, partial(_read, znodes, changed))
        if state.is_mine and state.epoch.version == attempted:
            return state.term()
        if state.controller is not None and not state.is_mine:
            await changed.wait()
            continue
        attempted = state.epoch.version + 1
        try:
            await znodes.multi(_election(state, description))
        except (ConnectionLost, Refused):
            # The next look shows whether it was applied.
            continue


async def _read(znodes: Znodes, changed: asyncio.Event) -> _State:
    controller = await znodes.get(CONTROLLER, changed)
    epoch = await required(znodes, CONTROLLER_EPOCH)
    head = await required(znodes, HEAD)
    return _State(controller, epoch, head, znodes.session_id)


def _election(state: _State, description: bytes) -> tuple[Operation, ...]:
    """The operations that succeed only if nobody was elected since this state was read."""
    epoch = read_number(CONTROLLER_EPOCH, state.epoch.data) + 1
    begin = SetData(CONTROLLER_EPOCH, write_number(epoch), state.epoch.version)
    if state.controller is None:
        return (Create(CONTROLLER, description, is_ephemeral=True), begin)
    return (SetData(CONTROLLER, description, state.controller.version), begin)
