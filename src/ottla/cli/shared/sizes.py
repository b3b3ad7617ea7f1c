"""Sizes for people."""

_UNITS = ("KiB", "MiB", "GiB", "TiB")
_KIB = 1024


def size_text(size_bytes: int) -> str:
    """`17 bytes`, `1.5 GiB`."""
    if size_bytes < _KIB:
        return f"{size_bytes} bytes"
    size, unit = size_bytes / _KIB, _UNITS[0]
    for larger in _UNITS[1:]:
        if size < _KIB:
            break
        size, unit = size / _KIB, larger
    return f"{size:.1f} {unit}"
