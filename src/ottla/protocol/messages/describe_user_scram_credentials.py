"""DescribeUserScramCredentials (50) v0-0. Gaps: none."""

from ottla.protocol.codec import request, response, struct
from ottla.protocol.primitives import i8, i16, i32


@struct
class User:
    name: str


@request(key=50, versions=(0, 0), flexible=0)
class DescribeUserScramCredentialsRequest:
    users: tuple[User, ...] | None


@struct
class Credential:
    mechanism: i8
    iterations: i32


@struct
class UserResult:
    user: str
    error_code: i16
    error_message: str | None = None
    credential_infos: tuple[Credential, ...]


@response(to=DescribeUserScramCredentialsRequest)
class DescribeUserScramCredentialsResponse:
    throttle_time_ms: i32 = 0
    error_code: i16
    error_message: str | None = None
    results: tuple[UserResult, ...]
