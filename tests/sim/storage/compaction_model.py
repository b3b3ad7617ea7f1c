"""What a compacted log must be: every record ever appended, and what may be missing of them."""

from dataclasses import dataclass, field

from ottla.protocol.batch import MarkerKind


@dataclass(slots=True, eq=False)
class Transaction:
    """One producer's; open until its marker is in the log."""

    producer_id: int
    marker_offset: int | None = None
    kind: MarkerKind | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Appended:
    """A record as it was appended."""

    offset: int
    timestamp_ms: int
    key: bytes
    value: bytes | None
    appended_ms: int
    transaction: Transaction | None

    @property
    def is_aborted(self) -> bool:
        return self.transaction is not None and self.transaction.kind is MarkerKind.ABORT

    @property
    def is_open(self) -> bool:
        return self.transaction is not None and self.transaction.kind is None


@dataclass(slots=True)
class CompactionModel:
    """`check` says what a log may serve; a plain dictionary is what its readers fold it to."""

    delete_retention_ms: int
    records: dict[int, Appended] = field(default_factory=dict)
    start_offset: int = 0

    def append(self, record: Appended) -> None:
        self.records[record.offset] = record

    def cut(self, end_offset: int) -> None:
        """What lies at or beyond the end is lost, and so is what a lost marker had decided."""
        self.records = {
            offset: each for offset, each in self.records.items() if offset < end_offset
        }
        for each in self.records.values():
            transaction = each.transaction
            if transaction and (transaction.marker_offset or 0) >= end_offset:
                transaction.marker_offset = transaction.kind = None

    def committed(self) -> dict[bytes, Appended]:
        """The last record of each key that is not, and will not be, taken back."""
        last: dict[bytes, Appended] = {}
        for _, each in sorted(self.records.items()):
            if not each.is_aborted and not each.is_open:
                last[each.key] = each
        return last

    def check(self, served: dict[int, tuple[int, bytes | None, bytes | None]], now_ms: int) -> None:
        """`served` is time, key and value of every record in the log, by its offset."""
        for offset, found in served.items():
            known = self.records.get(offset)
            assert known is not None, f"offset {offset} was never written, or was lost"
            assert found == (known.timestamp_ms, known.key, known.value), f"offset {offset} differs"
        for offset, known in self.records.items():
            if known.is_open and offset >= self.start_offset:
                assert offset in served, f"offset {offset} of an open transaction is missing"
        for key, last in self.committed().items():
            self._check_last(key, last, served, now_ms)

    def _check_last(
        self,
        key: bytes,
        last: Appended,
        served: dict[int, tuple[int, bytes | None, bytes | None]],
        now_ms: int,
    ) -> None:
        if last.offset in served or last.offset < self.start_offset:
            return
        assert last.value is None, f"the last record of {key!r} is missing, offset {last.offset}"
        assert now_ms >= last.appended_ms + self.delete_retention_ms, (
            f"the tombstone of {key!r} is missing too soon, offset {last.offset}"
        )
        back = [
            offset
            for offset, (_, found, _) in served.items()
            if found == key and offset < last.offset and not self.records[offset].is_aborted
        ]
        assert back == [], f"{key!r} is back without its tombstone, offsets {back}"

    def check_compacted(
        self, served: dict[int, tuple[int, bytes | None, bytes | None]], cleaned_offset: int
    ) -> None:
        """Below there each key has one record at most, and what was aborted is gone."""
        seen: dict[bytes, int] = {}
        for offset in sorted(served):
            known = self.records[offset]
            if offset < cleaned_offset and not known.is_open:
                assert not known.is_aborted, f"offset {offset} was aborted and is still there"
                assert known.key not in seen, f"{known.key!r} at {seen[known.key]} and {offset}"
                seen[known.key] = offset
