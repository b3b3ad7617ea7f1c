"""Has the requests of clients throttled while the metadata has client quotas."""

from collections.abc import Callable

from ottla.broker.net.connections import Connections
from ottla.broker.requests.client_quotas import ClientQuotas
from ottla.broker.requests.dispatch import Dispatch
from ottla.broker.requests.throttling import ThrottledRequests
from ottla.metadata.image import Image
from ottla.metadata.records import Quota
from ottla.metadata.store import Entry
from ottla.metrics.node import NodeMetrics
from ottla.protocol.messages import APIS


class QuotaEnforcement:
    """Follows the metadata log, and routes requests past the quotas or around them."""

    def __init__(
        self,
        connections: Connections,
        dispatch: Dispatch,
        now_ns: Callable[[], int],
        metrics: NodeMetrics,
    ) -> None:
        self._connections = connections
        self._dispatch = dispatch
        self._quotas = ClientQuotas()

        def on_throttled(api_key: int, throttle_time_ms: int) -> None:
            metrics.request_throttled(APIS[api_key].name, throttle_time_ms / 1000)

        self._throttled = ThrottledRequests(dispatch, self._quotas, now_ns, on_throttled)

    def load(self, image: Image) -> None:
        """Takes the quotas of the image."""
        was_empty = self._quotas.is_empty
        self._quotas.load(image.quotas)
        if self._quotas.is_empty != was_empty:
            handler = self._dispatch if self._quotas.is_empty else self._throttled
            self._connections.route_to(handler)

    def follow(self, image: Image, entry: Entry) -> None:
        """Takes the quotas that an entry of the metadata log changed."""
        if any(isinstance(record, Quota) for record in entry.records):
            self.load(image)
