"""Anomalies of topics that are made from other topics: copies in transactions, and word counts."""

from collections import Counter
from collections.abc import Iterator

from tests.cluster.chaos.anomaly import Anomaly, FinalRead, Kind
from tests.cluster.chaos.history import Record


def copy_anomalies(final: FinalRead, source: str, target: str) -> Iterator[Anomaly]:
    """Every committed record of `source` is the payload of one committed record of `target`."""
    originals = {each.value: each for each in final.committed if each.topic == source}
    copies: dict[str, list[Record]] = {}
    for each in final.committed:
        if each.topic == target:
            copies.setdefault(each.payload, []).append(each)
    for value, found in copies.items():
        if value not in originals:
            yield _of_copies(Kind.ABORTED_READ, value, found, f"copied, but not in {source}")
        elif len(found) > 1:
            yield _of_copies(Kind.COPIED_TWICE, value, found, "")
    for value, original in originals.items():
        if value not in copies:
            offsets = (original.offset,)
            yield Anomaly(Kind.NOT_COPIED, (value,), original.where, offsets, detail=f"to {target}")


def _of_copies(kind: Kind, value: str, copies: list[Record], detail: str) -> Anomaly:
    shown = ", ".join(each.value for each in copies)
    return Anomaly(
        kind,
        (value,),
        copies[0].where,
        tuple(each.offset for each in copies),
        detail=f"{detail}: {shown}" if detail else shown,
    )


def count_anomalies(final: FinalRead, source: str, target: str) -> Iterator[Anomaly]:
    """The payloads of `source` are words; `target` has each of their counts once, in order."""
    words = Counter(each.payload for each in final.committed if each.topic == source)
    counts: dict[str, list[int]] = {}
    for each in final.committed:
        if each.topic == target:
            counts.setdefault(each.value, []).append(int(each.payload))
    for word in sorted(words.keys() | counts.keys()):
        found, expected = counts.get(word, []), list(range(1, words[word] + 1))
        if found != expected:
            at = next(
                (
                    n
                    for n, pair in enumerate(zip(found, expected, strict=False))
                    if pair[0] != pair[1]
                ),
                min(len(found), len(expected)),
            )
            detail = f"{len(expected)} times in {source}, {len(found)} counts"
            detail += f", first other than expected: {found[at : at + 3]} after {at}"
            yield Anomaly(Kind.MISCOUNTED, (word,), detail=detail)
