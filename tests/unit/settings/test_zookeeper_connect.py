"""The connect string of ZooKeeper, as every client of ZooKeeper writes it."""

import pytest

from ottla.address import Address
from ottla.settings.kinds import NotAllowed
from ottla.settings.zookeeper_connect import ConnectString, ZooKeeperConnect

KIND = ZooKeeperConnect()


@pytest.mark.parametrize(
    ("text", "servers", "chroot"),
    [
        ("a", [("a", 2181)], ""),
        ("a:1", [("a", 1)], ""),
        (" a:1 , b.example:2 ", [("a", 1), ("b.example", 2)], ""),
        ("a:1,b:2/c", [("a", 1), ("b", 2)], "/c"),
        ("a:1/c/d-e_f.1", [("a", 1)], "/c/d-e_f.1"),
        ("a:1/", [("a", 1)], ""),
        ("a:1/c/", [("a", 1)], "/c"),
        ("[::1]:3,10.0.0.1:4/c", [("::1", 3), ("10.0.0.1", 4)], "/c"),
    ],
)
def test_servers_and_chroot_are_read_and_printed(
    text: str, servers: list[tuple[str, int]], chroot: str
) -> None:
    parsed = KIND.parse(text)
    assert parsed == ConnectString(tuple(Address(*each) for each in servers), chroot)
    assert KIND.parse(KIND.format(parsed)) == parsed


@pytest.mark.parametrize(
    "text",
    ["", ",", "a:0", "a:65536", "a:x", "a:1,", "::1", "a b:1", "a:1//c", "a:1/c/../d", "a:1/c d",
     "/c", "a:1/./c", "a:1,/c", "a:1/\u00fc"],
)  # fmt: skip
def test_anything_else_is_refused_with_the_notation(text: str) -> None:
    with pytest.raises(NotAllowed, match="host:port"):
        KIND.parse(text)
