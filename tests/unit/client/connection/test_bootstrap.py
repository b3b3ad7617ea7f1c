"""Addresses as users write them."""

import pytest

from ottla.address import Address
from ottla.client.connection.bootstrap import parse_addresses
from ottla.client.errors import BadAddress


def test_a_list_names_hosts_ports_and_ipv6_in_brackets() -> None:
    assert parse_addresses("a, b:19092,[::1]:9093,10.0.0.1:1") == (
        Address("a", 9092),
        Address("b", 19092),
        Address("::1", 9093),
        Address("10.0.0.1", 1),
    )


def test_an_address_named_twice_is_one() -> None:
    assert parse_addresses("a:9092,a") == (Address("a", 9092),)


def test_an_address_prints_as_it_is_written() -> None:
    assert [str(address) for address in parse_addresses("[::1]:9093,b")] == ["[::1]:9093", "b:9092"]


@pytest.mark.parametrize(
    "text", ["", "a,,b", "a:0", "a:65536", "a:port", "http://a:1", "::1", "a b", "a:1:2"]
)
def test_a_bad_address_is_named_in_the_error(text: str) -> None:
    with pytest.raises(BadAddress, match="host:port"):
        parse_addresses(text)


def test_the_number_of_addresses_is_bounded() -> None:
    with pytest.raises(BadAddress, match="at most 64"):
        parse_addresses(",".join(f"h{number}" for number in range(65)))
