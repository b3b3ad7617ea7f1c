"""Bytes of keys, values and headers as cells of the output."""

import base64

from ottla.cli.shared.output import Cell


def bytes_cell(raw: bytes | None) -> Cell:
    """A string if the bytes are UTF-8, otherwise `{"base64": …}`."""
    if raw is None:
        return None
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw).decode()}
