"""AlterClientQuotas and DescribeClientQuotas."""

from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    Entity,
    Entry,
    Operation,
)
from ottla.protocol.messages.describe_client_quotas import (
    Component,
    DescribeClientQuotasRequest,
)
from tests.support.broker.simulated_broker import Client, with_broker

EXACT, DEFAULT, SPECIFIED = 0, 1, 2
Names = dict[str, str | None]
ALICE: Names = {"user": "alice"}
ANYBODY: Names = {"user": None}
APP: Names = {"client-id": "app"}
ALICES_APP: Names = {"user": "alice", "client-id": "app"}
RATE = "producer_byte_rate"


def entry(names: Names, **values: float | None) -> Entry:
    return Entry(
        entity=tuple(Entity(entity_type=kind, entity_name=name) for kind, name in names.items()),
        ops=tuple(
            Operation(key=key, value=value or 0.0, remove=value is None)
            for key, value in values.items()
        ),
    )


async def alter(client: Client, *entries: Entry, validate_only: bool = False) -> list[int]:
    request = AlterClientQuotasRequest(entries=entries, validate_only=validate_only)
    answer = await client.ask(request)
    assert [each.entity for each in answer.entries] == [each.entity for each in entries]
    return [each.error_code for each in answer.entries]


async def describe(
    client: Client, *components: tuple[str, int, str | None], strict: bool = False
) -> list[tuple[Names, dict[str, float]]]:
    answer = await ask_description(client, *components, strict=strict)
    assert answer.error_code == ErrorCode.NONE
    return [
        (
            {part.entity_type: part.entity_name for part in each.entity},
            {value.key: value.value for value in each.values},
        )
        for each in answer.entries
    ]


async def ask_description(
    client: Client, *components: tuple[str, int, str | None], strict: bool = False
) -> Any:
    parts = tuple(
        Component(entity_type=kind, match_type=how, match=name) for kind, how, name in components
    )
    return await client.ask(DescribeClientQuotasRequest(components=parts, strict=strict))


def test_quotas_are_set_changed_and_removed() -> None:
    async def story(client: Client) -> None:
        assert await describe(client) == []
        both = entry(ALICE, producer_byte_rate=1000.0, consumer_byte_rate=2000.0)
        assert await alter(client, both, entry(APP, producer_byte_rate=5.0)) == [0, 0]
        assert await describe(client, ("user", EXACT, "alice")) == [
            (ALICE, {"consumer_byte_rate": 2000.0, RATE: 1000.0})
        ]
        assert await alter(
            client, entry(ALICE, producer_byte_rate=7.0, consumer_byte_rate=None)
        ) == [0]
        assert await describe(client, ("user", EXACT, "alice")) == [(ALICE, {RATE: 7.0})]
        assert await alter(client, entry(ALICE, producer_byte_rate=None)) == [0]
        assert await describe(client) == [(APP, {RATE: 5.0})]
        # Whatever is not there may be removed.
        assert await alter(client, entry(ALICE, producer_byte_rate=None)) == [0]

    with_broker(story)


def test_each_entry_is_changed_or_refused_by_itself() -> None:
    async def story(client: Client) -> None:
        codes = await alter(
            client,
            entry(ALICE, producer_byte_rate=1.0, speed=2.0),
            entry({}, producer_byte_rate=1.0),
            entry(APP, producer_byte_rate=1.0),
            entry({"ip": "127.0.0.1"}, connection_creation_rate=1.0),
        )
        refused = ErrorCode.INVALID_REQUEST
        assert codes == [refused, refused, 0, refused]
        assert await describe(client) == [(APP, {RATE: 1.0})]

    with_broker(story)


def test_a_validation_changes_nothing() -> None:
    async def story(client: Client) -> None:
        entries = entry(APP, producer_byte_rate=1.0), entry(APP, producer_byte_rate=-1.0)
        codes = await alter(client, *entries, validate_only=True)
        assert codes == [0, ErrorCode.INVALID_REQUEST]
        assert await describe(client) == []

    with_broker(story)


FILTERS: list[tuple[list[tuple[str, int, str | None]], bool, list[Names]]] = [
    ([], False, [ALICE, ANYBODY, APP, ALICES_APP]),
    ([], True, []),
    ([("user", EXACT, "alice")], False, [ALICE, ALICES_APP]),
    ([("user", EXACT, "alice")], True, [ALICE]),
    ([("user", DEFAULT, None)], False, [ANYBODY]),
    ([("user", SPECIFIED, None)], True, [ALICE, ANYBODY]),
    ([("user", SPECIFIED, None)], False, [ALICE, ANYBODY, ALICES_APP]),
    ([("client-id", EXACT, "app")], False, [APP, ALICES_APP]),
    ([("client-id", EXACT, "app"), ("user", EXACT, "alice")], True, [ALICES_APP]),
    ([("client-id", EXACT, "none")], False, []),
    ([("ip", SPECIFIED, None)], False, []),
]


def test_filters() -> None:
    async def story(client: Client) -> None:
        for names in (ALICE, ANYBODY, APP, ALICES_APP):
            assert await alter(client, entry(names, producer_byte_rate=1.0)) == [0]
        for components, strict, expected in FILTERS:
            found = [names for names, _ in await describe(client, *components, strict=strict)]
            assert sorted(map(str, found)) == sorted(map(str, map(ordered, expected)))

    with_broker(story)


def ordered(names: Names) -> Names:
    return {kind: names[kind] for kind in sorted(names)}


BAD_FILTERS: list[tuple[list[tuple[str, int, str | None]], ErrorCode]] = [
    ([("team", EXACT, "a")], ErrorCode.UNSUPPORTED_VERSION),
    ([("user", EXACT, "a"), ("user", EXACT, "b")], ErrorCode.INVALID_REQUEST),
    ([("user", EXACT, None)], ErrorCode.INVALID_REQUEST),
    ([("user", DEFAULT, "a")], ErrorCode.INVALID_REQUEST),
    ([("user", 9, None)], ErrorCode.INVALID_REQUEST),
    ([("ip", SPECIFIED, None), ("user", SPECIFIED, None)], ErrorCode.INVALID_REQUEST),
]


@pytest.mark.parametrize("number", range(len(BAD_FILTERS)))
def test_a_filter_that_makes_no_sense(number: int) -> None:
    components, code = BAD_FILTERS[number]

    async def story(client: Client) -> None:
        assert (await ask_description(client, *components)).error_code == code

    with_broker(story)
