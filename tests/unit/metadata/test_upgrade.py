"""Metadata of an earlier version opens with the same contents and can be appended to."""

import json
import tarfile
from pathlib import Path

import pytest

from ottla.metadata.controller import topic_changes
from ottla.metadata.controller.pending_topics import PendingTopics
from ottla.metadata.controller.topic_changes import NewTopic
from ottla.metadata.embedded.store import EmbeddedStore
from ottla.metadata.image import Image
from ottla.metadata.records import ControllerStarted
from ottla.seams.clock import RealClock
from ottla.seams.files import RealFiles
from ottla.settings.broker import BrokerSettings
from tests.sim.seams.loop import run
from tests.support.metadata.sample_records import topic_id
from tests.support.paths import VECTORS

UPGRADE = VECTORS / "upgrade"
# The same history twice: only entries, and a snapshot with entries after it.
CASES = ("metadata-log", "metadata-snapshot")


def leader_epochs(image: Image) -> dict[str, list[int]]:
    found = {}
    for name in sorted(image.topic_names):
        topic = image.topic(name)
        assert topic is not None
        found[name] = [each.leader_epoch for each in image.partitions(topic.topic_id)]
    return found


def unpacked(case: str, target: Path) -> str:
    with tarfile.open(UPGRADE / f"{case}.tar.gz") as archive:
        archive.extractall(target, filter="data")
    return str(target)


async def loaded(directory: str) -> Image:
    store = EmbeddedStore.open(RealFiles(), directory, RealClock())
    try:
        return Image.of(await store.load())
    finally:
        await store.close()


@pytest.mark.parametrize("case", CASES)
def test_metadata_with_one_epoch_floor_for_all_names_opens(case: str, tmp_path: Path) -> None:
    expected = json.loads((UPGRADE / f"{case}.expected.json").read_text())
    image = run(loaded(unpacked(case, tmp_path)))

    assert image.offset == expected["n"]
    assert image.epoch_floor == expected["epoch_floor"]
    assert leader_epochs(image) == expected["leader_epochs"]
    # The old format had no deleted names: the floor applies to every name.
    assert image.deleted_names == {}
    assert image.first_epoch("never-seen") == expected["epoch_floor"]
    # It had no broker id of the controller either.
    assert image.controller_epoch > 0
    assert image.controller_id is None


@pytest.mark.parametrize("case", CASES)
def test_metadata_of_an_earlier_version_can_be_appended_to(case: str, tmp_path: Path) -> None:
    directory = unpacked(case, tmp_path)

    async def steps() -> Image:
        store = EmbeddedStore.open(RealFiles(), directory, RealClock())
        image = Image.of(await store.load())
        fence = await store.campaign()
        await store.append([ControllerStarted(fence.epoch, broker_id=1)], fence)
        orders = image.topic("orders")
        assert orders is not None
        records, _ = topic_changes.delete_topic(PendingTopics(image), orders.topic_id)
        await store.append(records, fence)
        image = Image.of(await store.load())
        records, _ = topic_changes.create_topic(
            PendingTopics(image), NewTopic(name="orders"), BrokerSettings(), topic_id(9), 0
        )
        await store.append(records, fence)
        image = Image.of(await store.load())
        await store.save(image.snapshot(), fence)
        await store.close()
        return image

    image = run(steps())
    again = run(loaded(directory))

    assert leader_epochs(again) == {"kept": [3, 3], "late": [3], "orders": [5]}
    assert again.deleted_names == {"orders": 5}
    assert again == image
    assert again.controller_id == 1
