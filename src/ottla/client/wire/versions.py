"""The API versions that a broker and this client have in common. Does no I/O."""

from collections.abc import Mapping

from ottla import __version__
from ottla.client.errors import UnsupportedByBroker, error_code
from ottla.errors import ErrorCode
from ottla.protocol.headers import API_VERSIONS_KEY
from ottla.protocol.messages import APIS, Api
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

API_VERSIONS = APIS[API_VERSIONS_KEY]
SOFTWARE_NAME = "ottla"


class Versions:
    """The API versions of one broker."""

    __slots__ = ("_offered",)

    def __init__(self, offered: dict[int, tuple[int, int]]) -> None:
        self._offered = offered

    @classmethod
    def of(cls, response: ApiVersionsResponse) -> "Versions":
        return cls(
            {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}
        )

    @property
    def offered(self) -> Mapping[int, tuple[int, int]]:
        """The first and the last version of each API, by its key."""
        return self._offered

    def highest(self, api: Api, version_max: int | None = None) -> int:
        """The highest common version, at most `version_max`. UnsupportedByBroker if none."""
        offered = self._offered.get(api.key)
        if offered is None:
            raise UnsupportedByBroker(f"the broker does not offer {api.name}")
        first, last = api.versions
        version = min(last, offered[1], last if version_max is None else version_max)
        if version < max(first, offered[0]):
            wanted = f"{first}-{last if version_max is None else version_max}"
            raise UnsupportedByBroker(
                f"{api.name}: the broker offers versions {offered[0]}-{offered[1]}, "
                f"{wanted} would be needed"
            )
        return version

    def speaks(self, api: Api) -> bool:
        """Whether there is a common version."""
        try:
            self.highest(api)
        except UnsupportedByBroker:
            return False
        return True


def versions_request() -> ApiVersionsRequest:
    """The first request on every connection."""
    return ApiVersionsRequest(
        client_software_name=SOFTWARE_NAME, client_software_version=__version__
    )


def agree(response: ApiVersionsResponse, asked: int) -> Versions | int:
    """The broker's versions, or the lower version in which to send ApiVersions again.

    A broker that does not know version `asked` answers in v0, with an error and the range that it
    supports. Old brokers leave out the range. UnsupportedByBroker.
    """
    if response.error_code == ErrorCode.NONE:
        return Versions.of(response)
    if response.error_code != ErrorCode.UNSUPPORTED_VERSION or asked == API_VERSIONS.versions[0]:
        code = error_code(response.error_code)
        raise UnsupportedByBroker(f"the broker does not say which versions it speaks: {code.name}")
    offered = {each.api_key: each.max_version for each in response.api_keys}
    highest = offered.get(API_VERSIONS_KEY, API_VERSIONS.versions[0])
    return min(max(highest, API_VERSIONS.versions[0]), asked - 1)
