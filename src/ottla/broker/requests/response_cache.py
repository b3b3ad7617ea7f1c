"""A cache of encoded responses that depend on the metadata image."""

from collections import OrderedDict
from collections.abc import Hashable

from ottla.protocol.exchange import Encoded

CACHE_BYTES_MAX = 8 << 20


class ResponseCache:
    """Keeps the responses of one image, and evicts the least recently used ones first.

    A key must contain all that a response depends on besides the image.
    """

    __slots__ = ("_bytes_max", "_image_n", "_responses", "size_bytes")

    def __init__(self, bytes_max: int = CACHE_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._responses: OrderedDict[Hashable, Encoded] = OrderedDict()
        self._image_n = -1
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._responses)

    def get(self, image_n: int, key: Hashable) -> Encoded | None:
        """The cached response. Drops all responses if the image has changed."""
        if image_n != self._image_n:
            self._responses.clear()
            self._image_n, self.size_bytes = image_n, 0
            return None
        response = self._responses.get(key)
        if response is not None:
            self._responses.move_to_end(key)
        return response

    def put(self, key: Hashable, response: Encoded) -> None:
        """Caches a response for the image of the last `get`."""
        size = len(response.content)
        if size > self._bytes_max or key in self._responses:
            return
        self._responses[key] = response
        self.size_bytes += size
        while self.size_bytes > self._bytes_max:
            _, evicted = self._responses.popitem(last=False)
            self.size_bytes -= len(evicted.content)
