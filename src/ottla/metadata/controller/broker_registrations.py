"""The records of brokers that register, drain or lose their session. Decides, does no I/O.

A broker's record is committed before the partitions that follow from it (`STARTING`, `DRAINING`,
`GONE`). `UP` is committed once all of them name its new epoch.
"""

from collections.abc import Sequence
from dataclasses import replace

from ottla.metadata.image import Image
from ottla.metadata.incarnation import epoch_of_id, id_of_epoch
from ottla.metadata.records import Broker
from ottla.metadata.store import RegisteredBroker
from ottla.metadata.values import BrokerState


def membership_records(image: Image, registered: Sequence[RegisteredBroker]) -> list[Broker]:
    """The records by which the image's brokers become those that are registered now.

    None of them says that a broker is up: see `up_record`.
    """
    records = [
        record for each in registered if (record := _registration_record(image, each)) is not None
    ]
    present = {each.registration.broker_id for each in registered}
    records += [
        replace(broker, state=BrokerState.GONE)
        for broker_id, broker in sorted(image.brokers.items())
        if broker_id not in present and broker.is_live
    ]
    return records


def up_record(image: Image, broker_id: int) -> Broker | None:
    """The record of a broker whose partitions all name its epoch; None if it is up already."""
    broker = image.brokers[broker_id]
    if broker.state is not BrokerState.STARTING:
        return None
    # Nothing is left to inherit, and no damage left to record.
    return replace(broker, state=BrokerState.UP, inherits=None, also_inherits=(), damaged=())


def is_up(image: Image, registered: RegisteredBroker) -> bool:
    """Whether the image has all records of a broker's start, and its session lasts."""
    broker = image.brokers.get(registered.registration.broker_id)
    return (
        broker is not None
        and broker.epoch >= registered.broker_epoch
        and broker.state in (BrokerState.UP, BrokerState.DRAINING)
    )


def _registration_record(image: Image, registered: RegisteredBroker) -> Broker | None:
    registration, epoch = registered
    known = image.brokers.get(registration.broker_id)
    if known is not None and known.epoch >= epoch:
        is_new = known.epoch == epoch and registration.is_draining
        if is_new and known.state is BrokerState.UP:
            return replace(known, state=BrokerState.DRAINING)
        return None
    inherited = _inherited_epochs(known, registration.inherits)
    inherits = inherited[0] if inherited else None
    known_damage = known.damaged if known is not None else ()
    return Broker(
        broker_id=registration.broker_id,
        epoch=epoch,
        inherits=inherits,
        also_inherits=inherited[1:],
        endpoints=registration.endpoints,
        rack=registration.rack,
        host=registration.host,
        state=BrokerState.STARTING,
        incarnation_id=registration.incarnation_id,
        offline=registration.offline,
        # What the last incarnation could not tell in time.
        damaged=tuple(dict.fromkeys((*known_damage, *registration.damaged))) if inherited else (),
    )


def _inherited_epochs(known: Broker | None, inherits: Sequence[str]) -> tuple[int, ...]:
    """The epochs whose memberships a new incarnation takes over, the newest first."""
    epochs: list[int] = []
    if known is not None and (known.incarnation_id or id_of_epoch(known.epoch)) in inherits:
        # Those that it inherited itself, unless all partitions named its own epoch already.
        epochs += (known.epoch, *known.inherited_epochs)
    # Earlier versions saved epochs, and changed partitions before the broker's own record.
    epochs += [epoch for each in inherits if (epoch := epoch_of_id(each)) is not None]
    return tuple(dict.fromkeys(epochs))
