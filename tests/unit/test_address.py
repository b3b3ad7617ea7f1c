"""Addresses as they are printed: a bootstrap list can hold them again."""

import pytest

from ottla.address import Address
from ottla.client.connection.bootstrap import parse_addresses


@pytest.mark.parametrize(
    ("address", "text"),
    [
        (Address("localhost", 9092), "localhost:9092"),
        (Address("10.0.0.1", 1), "10.0.0.1:1"),
        (Address("::1", 9092), "[::1]:9092"),
    ],
)
def test_what_is_printed_can_be_read_again(address: Address, text: str) -> None:
    assert str(address) == text
    assert parse_addresses(text) == (address,)
