"""AlterUserScramCredentials (51) v0-0. Gaps: none."""

from ottla.protocol.codec import request, response, struct
from ottla.protocol.primitives import i8, i16, i32
from ottla.protocol.refusal import Refusal


@struct
class Deletion:
    name: str
    mechanism: i8


@struct
class Upsertion:
    name: str
    mechanism: i8
    iterations: i32
    salt: bytes
    salted_password: bytes


@request(key=51, versions=(0, 0), flexible=0)
class AlterUserScramCredentialsRequest:
    deletions: tuple[Deletion, ...]
    upsertions: tuple[Upsertion, ...]


@struct
class UserResult:
    user: str
    error_code: i16
    error_message: str | None = None


@response(to=AlterUserScramCredentialsRequest)
class AlterUserScramCredentialsResponse:
    throttle_time_ms: i32 = 0
    results: tuple[UserResult, ...]


def refuse(
    request: AlterUserScramCredentialsRequest, refusal: Refusal
) -> AlterUserScramCredentialsResponse:
    deleted = (deletion.name for deletion in request.deletions)
    upserted = (upsertion.name for upsertion in request.upsertions)
    return AlterUserScramCredentialsResponse(
        results=tuple(
            UserResult(user=user, error_code=refusal.code, error_message=refusal.message)
            for user in dict.fromkeys((*deleted, *upserted))
        )
    )
