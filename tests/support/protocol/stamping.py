"""Gives a batch its place in a log, as a leader does when it writes the batch."""

from ottla.protocol.batch import PREFIX_BYTES, prefix, read_header


def stamp(batch: bytearray, base_offset: int, leader_epoch: int, position: int = 0) -> None:
    """Sets base offset and leader epoch of the batch at `position`. The CRC covers neither."""
    length = read_header(batch, position).length
    batch[position : position + PREFIX_BYTES] = prefix(base_offset, length, leader_epoch)
