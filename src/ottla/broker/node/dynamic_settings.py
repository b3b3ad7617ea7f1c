"""A broker's settings while it runs: what it started with, and what clients changed since."""

from collections.abc import Callable

from ottla.metadata.configs import broker_settings
from ottla.metadata.image import Image
from ottla.metadata.records import Config
from ottla.metadata.store import Entry
from ottla.metadata.values import ResourceKind
from ottla.settings.broker import BrokerSettings
from ottla.settings.table.node import NODE_ID

Obey = Callable[[BrokerSettings], None]


class SettingsInForce:
    """Follows the metadata log; whoever obeys the settings is told the new ones."""

    def __init__(self, given: BrokerSettings) -> None:
        self.now = given
        self._given = given
        self._obeying: list[Obey] = []

    def tell(self, obey: Obey) -> None:
        """Calls it after each change from now on."""
        self._obeying.append(obey)

    def load(self, image: Image) -> None:
        """Takes what was changed before this start."""
        self.now = broker_settings(image, self._given[NODE_ID], self._given)

    def follow(self, image: Image, entry: Entry) -> None:
        """Takes what one more entry of the metadata log changed."""
        if any(_is_about_brokers(record) for record in entry.records):
            self.load(image)
            for obey in self._obeying:
                obey(self.now)


def _is_about_brokers(record: object) -> bool:
    return isinstance(record, Config) and record.kind is ResourceKind.BROKER
