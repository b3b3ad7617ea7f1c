"""The address of a client in an envelope."""

import pytest

from ottla.broker.inter_broker.forwarding import _packed, unpacked
from ottla.errors import ErrorCode, PeerError


@pytest.mark.parametrize(
    ("host", "size", "told"),
    [
        ("10.0.0.7", 4, "10.0.0.7"),
        ("::1", 16, "::1"),
        ("fe80::1%eth0", 16, "fe80::1"),
        ("", 4, "0.0.0.0"),
        ("elsewhere", 4, "0.0.0.0"),
    ],
)
def test_an_address_arrives_as_it_was(host: str, size: int, told: str) -> None:
    packed = _packed(host)
    assert len(packed) == size
    assert unpacked(packed) == told


@pytest.mark.parametrize("size", [0, 3, 5, 17])
def test_other_sizes_are_no_address(size: int) -> None:
    with pytest.raises(PeerError) as caught:
        unpacked(bytes(size))
    assert caught.value.code is ErrorCode.INVALID_REQUEST
