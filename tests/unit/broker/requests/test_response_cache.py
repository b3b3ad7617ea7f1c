"""The cache of encoded responses."""

from ottla.broker.requests.response_cache import ResponseCache
from ottla.protocol.exchange import Encoded


def test_a_response_is_cached_until_the_image_changes() -> None:
    cache = ResponseCache()
    assert cache.get(1, "key") is None
    response = Encoded(b"response")
    cache.put("key", response)
    assert cache.get(1, "key") is response
    assert cache.get(1, "other") is None
    assert cache.get(2, "key") is None
    assert (len(cache), cache.size_bytes) == (0, 0)


def test_the_least_recently_used_response_is_evicted_first() -> None:
    cache = ResponseCache(bytes_max=20)
    cache.get(1, "first")
    for key in ("first", "second"):
        cache.put(key, Encoded(bytes(10)))
    cache.get(1, "first")
    cache.put("third", Encoded(bytes(10)))
    kept = {key for key in ("first", "second", "third") if cache.get(1, key)}
    assert kept == {"first", "third"}
    assert cache.size_bytes == 20


def test_a_response_above_the_limit_is_not_cached() -> None:
    cache = ResponseCache(bytes_max=20)
    cache.get(1, "key")
    cache.put("key", Encoded(bytes(21)))
    assert len(cache) == 0
