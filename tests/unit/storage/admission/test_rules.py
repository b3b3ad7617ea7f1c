from dataclasses import replace
from typing import Any

import pytest

from ottla.protocol.compression import Codec
from ottla.storage.admission.rules import AdmissionRules

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
RULES = AdmissionRules()


@pytest.mark.parametrize(
    "changed",
    [
        {"compacted": True},
        {"timestamp_before_max_ms": 1000},
        {"log_append_time": True},
        {"codec": Codec.NONE},
    ],
)
def test_a_topic_that_checks_or_changes_records_has_no_native_checks(
    changed: dict[str, Any],
) -> None:
    assert RULES.native_checks is not None
    assert replace(RULES, **changed).native_checks is None


def test_log_append_time_replaces_timestamps_whatever_they_are() -> None:
    assert AdmissionRules(timestamp_before_max_ms=1000).looks_at_records
    assert not AdmissionRules(timestamp_before_max_ms=1000, log_append_time=True).looks_at_records


def test_a_compressed_batch_is_decompressed_only_where_the_topic_needs_it() -> None:
    late_ms = NOW_MS + HOUR_MS + 1
    assert not RULES.may_need_decompression(Codec.ZSTD, NOW_MS, NOW_MS)
    assert RULES.may_need_decompression(Codec.ZSTD, late_ms, NOW_MS)
    assert not AdmissionRules(log_append_time=True).may_need_decompression(
        Codec.ZSTD, late_ms, NOW_MS
    )
    assert AdmissionRules(compacted=True).may_need_decompression(Codec.ZSTD, NOW_MS, NOW_MS)
    assert not AdmissionRules(compacted=True).may_need_decompression(Codec.NONE, late_ms, NOW_MS)


def test_another_codec_than_the_topics_is_always_work() -> None:
    zstd = AdmissionRules(codec=Codec.ZSTD)
    assert zstd.may_need_decompression(Codec.NONE, NOW_MS, NOW_MS)
    assert zstd.may_need_decompression(Codec.GZIP, NOW_MS, NOW_MS)
    assert not zstd.may_need_decompression(Codec.ZSTD, NOW_MS, NOW_MS)
