"""UpdateFeatures: which changes of a level the controller makes."""

import pytest

from ottla.errors import ErrorCode, PeerError
from ottla.metadata.controller.feature_changes import FeatureUpdate, UpgradeType, update_features
from ottla.metadata.features import TRANSACTION_VERSION, finalized_level
from ottla.metadata.image import Image
from ottla.metadata.records import Feature

UP, DOWN, UNSAFE = UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE


def at_level(level: int | None) -> Image:
    image = Image()
    if level is not None:
        image.apply(Feature(TRANSACTION_VERSION, level))
    return image


@pytest.mark.parametrize(
    ("before", "level", "upgrade_type"),
    [(None, 1, DOWN), (None, 0, UNSAFE), (0, 2, UP), (1, 2, UP), (2, 1, UNSAFE)],
)
def test_a_level_is_changed_in_the_direction_that_the_client_allows(
    before: int | None, level: int, upgrade_type: int
) -> None:
    image = at_level(before)
    (record,) = update_features(image, [FeatureUpdate(TRANSACTION_VERSION, level, upgrade_type)])
    image.apply(record)
    assert finalized_level(image, TRANSACTION_VERSION) == level


@pytest.mark.parametrize(
    ("name", "level", "upgrade_type"),
    [
        (TRANSACTION_VERSION, 1, UP),
        (TRANSACTION_VERSION, 3, UP),
        (TRANSACTION_VERSION, -1, DOWN),
        (TRANSACTION_VERSION, 1, 0),
        (TRANSACTION_VERSION, 1, 9),
        ("group.version", 0, DOWN),
        ("metadata.version", 1, UP),
    ],
)
def test_other_changes_are_refused_with_all_that_come_with_them(
    name: str, level: int, upgrade_type: int
) -> None:
    good = FeatureUpdate(TRANSACTION_VERSION, 1, DOWN)
    with pytest.raises(PeerError) as caught:
        update_features(at_level(None), [good, FeatureUpdate(name, level, upgrade_type)])
    assert caught.value.code is ErrorCode.INVALID_UPDATE_VERSION


def test_a_downgrade_does_not_raise_a_level() -> None:
    with pytest.raises(PeerError):
        update_features(at_level(0), [FeatureUpdate(TRANSACTION_VERSION, 2, DOWN)])


@pytest.mark.parametrize("upgrade_type", [UP, DOWN, UNSAFE])
def test_the_level_in_force_is_no_change(upgrade_type: int) -> None:
    image = at_level(1)
    assert update_features(image, [FeatureUpdate(TRANSACTION_VERSION, 1, upgrade_type)]) == []
