"""The registrations of brokers in ZooKeeper: ephemeral nodes, whose czxid is the broker epoch."""

import asyncio
from collections.abc import AsyncGenerator, Container
from dataclasses import replace
from functools import partial

from ottla.metadata.store import BrokerIdTaken, RegisteredBroker, Registration
from ottla.metadata.zookeeper.layout import (
    BROKERS,
    broker_path,
    read_registration,
    write_registration,
)
from ottla.metadata.zookeeper.znodes import (
    ConnectionLost,
    Create,
    Delete,
    Operation,
    Refused,
    SetData,
    Znode,
    Znodes,
    fresh,
)


async def require_free(znodes: Znodes, broker_id: int, replaces: Container[str]) -> None:
    """BrokerIdTaken if an incarnation other than these is registered under this id now."""
    path = broker_path(broker_id)
    node = await fresh(znodes, partial(znodes.get, path))
    if node is not None:
        other = read_registration(path, node.data)
        if other.incarnation_id not in replaces:
            raise BrokerIdTaken(broker_id, other.host)


async def register(znodes: Znodes, registration: Registration) -> RegisteredBroker:
    """See `MetadataStore.register`."""
    path = broker_path(registration.broker_id)
    content = write_registration(registration)
    is_attempted = False
    # The czxid of the node that the last attempt would have replaced; None if there was none.
    replaced: int | None = None
    while True:
        node = await fresh(znodes, partial(znodes.get, path))
        if node is not None and node.owner != znodes.session_id:
            other = read_registration(path, node.data)
            if not registration.may_replace(other):
                raise BrokerIdTaken(registration.broker_id, other.host)
        elif node is not None and is_attempted and node.czxid != replaced:
            # It belongs to our own ZooKeeper session, so nobody else has created it.
            return RegisteredBroker(registration, node.czxid)
        is_attempted, replaced = True, None if node is None else node.czxid
        try:
            await znodes.multi(_registering(path, content, node))
        except (ConnectionLost, Refused):
            # The next look shows whether it was applied, as after a success.
            continue


def _registering(path: str, content: bytes, node: Znode | None) -> tuple[Operation, ...]:
    create = Create(path, content, is_ephemeral=True)
    return (create,) if node is None else (Delete(path, node.version), create)


async def drain(znodes: Znodes, registered: RegisteredBroker) -> None:
    """Marks the registration as draining, unless it has ended."""
    path = broker_path(registered.registration.broker_id)
    while True:
        node = await fresh(znodes, partial(znodes.get, path))
        if node is None or node.czxid != registered.broker_epoch:
            return
        found = read_registration(path, node.data)
        if found.is_draining:
            return
        content = write_registration(replace(found, is_draining=True))
        try:
            await znodes.multi((SetData(path, content, node.version),))
        except (ConnectionLost, Refused):
            continue


async def until_ended(znodes: Znodes, registered: RegisteredBroker) -> None:
    """Returns when this registration is no longer in ZooKeeper."""
    path = broker_path(registered.registration.broker_id)
    changed = asyncio.Event()
    while True:
        changed.clear()
        node = await fresh(znodes, partial(znodes.get, path, changed))
        if node is None or node.czxid != registered.broker_epoch:
            return
        await changed.wait()


async def registered_brokers(znodes: Znodes) -> AsyncGenerator[tuple[RegisteredBroker, ...], None]:
    """See `MetadataStore.registered_brokers`."""
    changed = asyncio.Event()
    yielded: tuple[RegisteredBroker, ...] | None = None
    while True:
        changed.clear()
        present = await fresh(znodes, partial(_read_all, znodes, changed))
        if present != yielded:
            yielded = present
            yield present
        await changed.wait()


async def _read_all(znodes: Znodes, changed: asyncio.Event) -> tuple[RegisteredBroker, ...]:
    brokers = []
    for name in await znodes.children(BROKERS, changed):
        path = f"{BROKERS}/{name}"
        node = await znodes.get(path, changed)
        # One that has vanished is a change of the list, which is watched.
        if node is not None:
            brokers.append(RegisteredBroker(read_registration(path, node.data), node.czxid))
    return tuple(sorted(brokers, key=lambda broker: broker.registration.broker_id))
