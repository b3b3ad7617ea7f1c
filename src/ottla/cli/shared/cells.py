"""How what a record holds is shown."""

import base64

from ottla.cli.shared.output import Cell


def bytes_cell(raw: bytes | None) -> Cell:
    """Text where the bytes are text, `{"base64": …}` where they are not."""
    if raw is None:
        return None
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw).decode()}
