"""The steps of a repair, decided from the damage of a partition."""

from types import SimpleNamespace
from typing import Any

from ottla.cli.log.verify.damage import Damage, Effect, Remedy, ShutdownState
from ottla.cli.log.verify.directory import Report
from ottla.cli.log.verify.partition import PartitionReport
from ottla.cli.log.verify.plan import Cut, Rebuild, SetAside, plan_of

PATH = "/logs/orders-0"


def damage(name: str, remedy: Remedy) -> Damage:
    return Damage(
        path=f"{PATH}/{name}", position=0, what="wrong", effect=Effect.REBUILDS, remedy=remedy
    )


def segment(base_offset: int, *damages: Damage, valid: int = 3) -> Any:
    """A scanned segment of three batches with one offset and 100 bytes each."""
    return SimpleNamespace(
        base_offset=base_offset,
        damages=list(damages),
        size_bytes=300,
        batches=3,
        last_offset=base_offset + 2,
        valid_bytes=100 * valid,
        valid_batches=valid,
        valid_end_offset=base_offset + valid,
    )


def steps_of(segments: list[Any], *damages: Damage) -> list[Any]:
    partition = PartitionReport(PATH, ShutdownState(), segments, list(damages))
    return plan_of(Report("/logs", [partition]))


CORRUPT = damage("00000000000000000003.log", Remedy.CUT)


def test_no_damage_has_no_steps() -> None:
    assert steps_of([segment(0), segment(3)]) == []


def test_the_log_is_cut_at_its_first_damage_and_later_segments_are_dropped() -> None:
    (cut,) = steps_of([segment(0), segment(3, CORRUPT, valid=1), segment(6)], CORRUPT)
    assert cut == Cut(
        directory=PATH,
        base_offset=3,
        position=100,
        dropped=(6,),
        end_offset=4,
        last_offset=8,
        batches=5,
        size_bytes=500,
    )


def test_a_segment_without_valid_bytes_is_dropped_unless_it_is_the_only_one() -> None:
    (cut,) = steps_of([segment(0), segment(3, CORRUPT, valid=0)], CORRUPT)
    assert (cut.base_offset, cut.position, cut.dropped) == (3, 0, (3,))
    (cut,) = steps_of([segment(3, CORRUPT, valid=0)], CORRUPT)
    assert (cut.base_offset, cut.position, cut.dropped) == (3, 0, ())


def test_only_indexes_of_kept_segments_are_rebuilt_after_the_cut() -> None:
    indexes = [
        damage(f"{base_offset:020d}.index", Remedy.REBUILD_INDEXES) for base_offset in (0, 6)
    ]
    segments = [segment(0), segment(3, CORRUPT, valid=1), segment(6)]
    cut, *others = steps_of(segments, CORRUPT, *indexes)
    assert isinstance(cut, Cut)
    assert others == [Rebuild(PATH, Remedy.REBUILD_INDEXES, 0)]


def test_files_are_set_aside_and_the_recovery_point_is_lowered_without_a_cut() -> None:
    lost = damage("00000000000000000000.log", Remedy.LOWER_RECOVERY_POINT)
    snapshot = damage("00000000000000000003.snapshot", Remedy.SET_ASIDE)
    assert steps_of([segment(0)], snapshot, lost) == [
        Rebuild(PATH, Remedy.LOWER_RECOVERY_POINT, end_offset=3),
        SetAside(snapshot.path),
    ]
