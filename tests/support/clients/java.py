"""Java's own client, through the console tools that come with Kafka."""

from collections.abc import Sequence

from tests.support.clients.client import REQUEST_BYTES_MAX, Headers, Sent, Stored, Unsayable
from tests.support.compat.java_tools import run_tool

NULL = "<null>"
# Nothing that is sent contains these.
KEY_END, HEADERS_END, HEADER_END, NAME_END = "<key>", "<headers>", "<header>", "<name>"
RECORD_END = "<record>"
NO_HEADERS = b"NO_HEADERS"


class Java:
    name = "java"
    cannot_say = frozenset({Unsayable.TIMESTAMP, Unsayable.ANY_BYTES})

    def write(self, servers: str, topic: str, sent: Sequence[Sent], codec: str = "none") -> None:
        run_tool(
            "ConsoleProducer",
            *("--bootstrap-server", servers, "--topic", topic, "--compression-codec", codec),
            *("--command-property", f"max.request.size={REQUEST_BYTES_MAX}"),
            *_properties(
                "--reader-property",
                {
                    "parse.key": "true",
                    "parse.headers": "true",
                    "null.marker": NULL,
                    "headers.delimiter": HEADERS_END,
                    "headers.separator": HEADER_END,
                    "headers.key.separator": NAME_END,
                    "key.separator": KEY_END,
                },
            ),
            lines=b"".join(map(_line, sent)),
        )

    def read(self, servers: str, topic: str, amount: int, *, first: int = 0) -> list[Stored]:
        printed = run_tool(
            "consumer.ConsoleConsumer",
            *("--bootstrap-server", servers, "--topic", topic, "--partition", "0"),
            *("--offset", str(first), "--max-messages", str(amount), "--timeout-ms", "120000"),
            *_properties(
                "--formatter-property",
                {
                    "print.timestamp": "true",
                    "print.offset": "true",
                    "print.headers": "true",
                    "print.key": "true",
                    "null.literal": NULL,
                    "key.separator": KEY_END,
                    "headers.separator": HEADER_END,
                    "line.separator": RECORD_END,
                },
            ),
        )
        return [_parse(line) for line in printed.split(RECORD_END.encode())[:-1]]

    def offset_at(self, servers: str, topic: str, timestamp_ms: int) -> int | None:
        printed = run_tool(
            "GetOffsetShell",
            *("--bootstrap-server", servers, "--topic", topic, "--time", str(timestamp_ms)),
        )
        found = printed.decode().strip().rpartition(":")[2]
        return int(found) if found not in ("", "-1") else None


def _properties(option: str, properties: dict[str, str]) -> list[str]:
    return [word for name, value in properties.items() for word in (option, f"{name}={value}")]


def _line(record: Sent) -> bytes:
    headers = HEADER_END.encode().join(
        name.encode() + NAME_END.encode() + _or_null(value) for name, value in record.headers
    )
    # A line must not begin with the end of its headers: none are said by a null.
    return b"%s%s%s%s%s\n" % (
        headers or NULL.encode(),
        HEADERS_END.encode(),
        _or_null(record.key),
        KEY_END.encode(),
        _or_null(record.value),
    )


def _or_null(value: bytes | None) -> bytes:
    return NULL.encode() if value is None else value


def _parse(line: bytes) -> Stored:
    timestamp, offset, headers, key, value = line.split(KEY_END.encode(), 4)
    return Stored(
        int(offset.removeprefix(b"Offset:")),
        int(timestamp.removeprefix(b"CreateTime:")),
        _none_if_null(key),
        _none_if_null(value),
        _headers(headers),
    )


def _none_if_null(printed: bytes) -> bytes | None:
    return None if printed == NULL.encode() else printed


def _headers(printed: bytes) -> Headers:
    if printed == NO_HEADERS:
        return ()
    pairs = (pair.partition(b":") for pair in printed.split(HEADER_END.encode()))
    return tuple((name.decode(), _none_if_null(value)) for name, _, value in pairs)
