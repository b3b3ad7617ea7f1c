"""The common versions with a broker."""

import pytest

from ottla.client.errors import UnsupportedByBroker
from ottla.client.wire.versions import Versions, agree
from ottla.errors import ErrorCode
from ottla.protocol.messages import APIS
from ottla.protocol.messages.api_versions import ApiVersionsResponse, VersionRange

FETCH = APIS[1]


def answer(code: int, *ranges: tuple[int, int, int]) -> ApiVersionsResponse:
    return ApiVersionsResponse(
        error_code=code,
        api_keys=tuple(
            VersionRange(api_key=key, min_version=low, max_version=high)
            for key, low, high in ranges
        ),
    )


@pytest.mark.parametrize(
    ("offered", "version_max", "expected"),
    [
        ((0, 99), None, 18),
        ((0, 11), None, 11),
        ((4, 18), 12, 12),
        ((18, 30), None, 18),
    ],
)
def test_the_highest_common_version_is_used(
    offered: tuple[int, int], version_max: int | None, expected: int
) -> None:
    assert Versions({1: offered}).highest(FETCH, version_max) == expected


@pytest.mark.parametrize(
    ("offered", "version_max"), [((0, 3), None), ((19, 20), None), ((13, 18), 12)]
)
def test_no_common_version_is_an_error_that_names_both_ranges(
    offered: tuple[int, int], version_max: int | None
) -> None:
    with pytest.raises(UnsupportedByBroker, match=f"Fetch.*{offered[0]}-{offered[1]}"):
        Versions({1: offered}).highest(FETCH, version_max)


def test_an_api_that_the_broker_does_not_serve_is_an_error() -> None:
    with pytest.raises(UnsupportedByBroker, match="does not offer Fetch"):
        Versions({}).highest(FETCH)


def test_a_response_without_error_gives_the_versions() -> None:
    agreed = agree(answer(0, (1, 4, 12)), asked=4)
    assert isinstance(agreed, Versions)
    assert agreed.highest(FETCH) == 12


@pytest.mark.parametrize(
    ("ranges", "asked", "expected"),
    [
        ([(18, 0, 3)], 4, 3),
        ([(18, 0, 2)], 3, 2),
        # An old broker gives no range.
        ([], 4, 0),
        # A broker that offers the version that it has just refused causes no endless loop.
        ([(18, 0, 4)], 4, 3),
    ],
)
def test_a_broker_that_does_not_know_the_version_gets_a_lower_one(
    ranges: list[tuple[int, int, int]], asked: int, expected: int
) -> None:
    assert agree(answer(ErrorCode.UNSUPPORTED_VERSION, *ranges), asked) == expected


@pytest.mark.parametrize(
    ("code", "asked"), [(ErrorCode.UNSUPPORTED_VERSION, 0), (ErrorCode.INVALID_REQUEST, 4)]
)
def test_another_error_of_apiversions_is_raised(code: int, asked: int) -> None:
    with pytest.raises(UnsupportedByBroker, match=ErrorCode(code).name):
        agree(answer(code), asked)
