"""The parts of a node that send requests to other brokers."""

from collections.abc import Callable
from dataclasses import dataclass

from ottla.broker.inter_broker.broker_channels import BrokerChannels
from ottla.broker.inter_broker.controller_channel import ControllerChannel
from ottla.broker.inter_broker.forwarding import Forwarding
from ottla.broker.inter_broker.own_requests import OwnRequests
from ottla.broker.inter_broker.shared_connection import ChannelParts
from ottla.metadata.controller_interface import Controller
from ottla.metadata.image import Image
from ottla.metadata.store import Entry


@dataclass(frozen=True, slots=True)
class InterBroker:
    """Each kind of requests has a connection of its own, so that none holds up the others: a broker
    handles the requests of a connection one after another.
    """

    is_controller: Callable[[], bool]
    # The epoch of this broker's current registration.
    broker_epoch: Callable[[], int]
    # For clients' requests.
    clients_channel: ControllerChannel
    forwarding: Forwarding
    # For this broker's requests, such as AlterPartition.
    channel: ControllerChannel
    own_requests: OwnRequests
    # For requests to any broker.
    brokers: BrokerChannels
    # For markers, which wait for replication.
    marker_channels: BrokerChannels
    # For questions to transaction coordinators, for which produces wait.
    verification_channels: BrokerChannels

    def follow(self, image: Image, entry: Entry) -> None:
        """Follows the metadata log: brokers come and go, and another may be the controller."""
        for channel in self._channels:
            channel.follow(image, entry)

    def close(self) -> None:
        for channel in self._channels:
            channel.close()

    @property
    def _channels(self) -> tuple[ControllerChannel | BrokerChannels, ...]:
        return (
            self.clients_channel,
            self.channel,
            self.brokers,
            self.marker_channels,
            self.verification_channels,
        )


def make_inter_broker(
    parts: ChannelParts, controller: Controller, broker_epoch: Callable[[], int]
) -> InterBroker:
    """`broker_epoch` returns the epoch of this broker's current registration."""
    clients_channel, channel = ControllerChannel(parts), ControllerChannel(parts)
    return InterBroker(
        is_controller=parts.is_controller,
        broker_epoch=broker_epoch,
        clients_channel=clients_channel,
        forwarding=Forwarding(clients_channel, parts.request_timeout_ms),
        channel=channel,
        own_requests=OwnRequests(
            controller=controller,
            channel=channel,
            forwarding=Forwarding(channel, parts.request_timeout_ms),
            node_id=parts.node_id,
            broker_epoch=broker_epoch,
        ),
        brokers=BrokerChannels(parts),
        marker_channels=BrokerChannels(parts),
        verification_channels=BrokerChannels(parts),
    )
