"""Finds an error code in a response, on whatever level it is."""

from ottla.errors import ErrorCode
from ottla.protocol.codec.declare import is_declared, schema_of

_ERROR_CODE = "error_code"


def has_error_code(message: object, code: ErrorCode) -> bool:
    """Whether the message, or a struct in it, has this code as an `error_code`."""
    if isinstance(message, tuple | list):
        return any(has_error_code(each, code) for each in message)
    if not is_declared(type(message)):
        return False
    return any(
        getattr(message, name) == code
        if name.endswith(_ERROR_CODE)
        else has_error_code(getattr(message, name), code)
        for name in schema_of(type(message)).fields
    )
