"""kcat, with the librdkafka of its distribution."""

import re
import shutil
import subprocess
from collections.abc import Sequence
from itertools import groupby

import pytest

from tests.support.clients.client import REQUEST_BYTES_MAX, WAIT_S, Headers, Sent, Stored, Unsayable

KEY_END, RECORD_END, NULL_HEADER = "\x1f", "\x1e", "NULL"
# Sizes come first, so that keys and values may hold anything; null is a size of -1.
FORMAT = "%o %T %K %S %h\n%k%s"
HEAD = re.compile(rb"(\d+) (\d+) (-?\d+) (-?\d+) (.*)\n")


class Kcat:
    name = "kcat"
    cannot_say = frozenset({Unsayable.TIMESTAMP, Unsayable.ANY_BYTES})

    def write(self, servers: str, topic: str, sent: Sequence[Sent], codec: str = "none") -> None:
        # A run has the same headers for all records, and takes what is empty for null or does not.
        for (headers, has_nulls), records in groupby(sent, key=_run_of):
            options = [option for header in headers for option in ("-H", _header_option(*header))]
            lines = [
                (record.key or b"") + KEY_END.encode() + (record.value or b"") for record in records
            ]
            kcat(
                *("-P", "-b", servers, "-t", topic, "-p", "0", "-z", codec, *options),
                *("-K", KEY_END, "-D", RECORD_END, *(("-Z",) if has_nulls else ())),
                *("-X", f"message.max.bytes={REQUEST_BYTES_MAX}"),
                lines=RECORD_END.encode().join(lines),
            )

    def read(self, servers: str, topic: str, amount: int, *, first: int = 0) -> list[Stored]:
        printed = kcat(
            *("-C", "-b", servers, "-t", topic, "-p", "0", "-o", str(first)),
            *("-c", str(amount), "-e", "-q", "-f", FORMAT),
        )
        return _parse(printed)

    def offset_at(self, servers: str, topic: str, timestamp_ms: int) -> int | None:
        printed = kcat("-Q", "-b", servers, "-t", f"{topic}:0:{timestamp_ms}")
        offset = int(printed.rpartition(b" ")[2])
        return offset if offset >= 0 else None


def kcat(*arguments: str, lines: bytes = b"") -> bytes:
    """The output of a run. A failed run fails the test."""
    if shutil.which("kcat") is None:
        pytest.fail("kcat is needed: run `make test`, or tools/need kcat kcat", pytrace=False)
    finished = subprocess.run(
        ["kcat", *arguments], input=lines, capture_output=True, timeout=WAIT_S, check=False
    )
    assert finished.returncode == 0, finished.stderr.decode()
    return finished.stdout


def _run_of(record: Sent) -> tuple[Headers, bool]:
    return record.headers, record.key is None or record.value is None


def _header_option(name: str, value: bytes | None) -> str:
    return name if value is None else f"{name}={value.decode()}"


def _parse(printed: bytes) -> list[Stored]:
    found = []
    position = 0
    while position < len(printed):
        head = HEAD.match(printed, position)
        assert head is not None, printed[position : position + 100]
        offset, timestamp_ms, key_size, value_size = map(int, head.groups()[:4])
        key_end = head.end() + max(key_size, 0)
        position = key_end + max(value_size, 0)
        found.append(
            Stored(
                offset,
                timestamp_ms,
                None if key_size < 0 else printed[head.end() : key_end],
                None if value_size < 0 else printed[key_end:position],
                _headers(head[5]),
            )
        )
    return found


def _headers(printed: bytes) -> Headers:
    if not printed:
        return ()
    pairs = (pair.partition(b"=") for pair in printed.split(b","))
    return tuple(
        (name.decode(), None if value == NULL_HEADER.encode() else value)
        for name, _, value in pairs
    )
