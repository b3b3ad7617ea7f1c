"""Rules that every definition in the table of settings keeps."""

from typing import Any

import pytest

from ottla.settings.setting import Scope, Setting
from ottla.settings.sources import NON_SETTING_VARIABLES, environment_name
from ottla.settings.table import AREAS, BROKER_SETTINGS, TOPIC_SETTINGS, constants

CONSTANTS = {name: each for area in AREAS for name, each in constants(area).items()}
EVERY = [*TOPIC_SETTINGS.values(), *BROKER_SETTINGS.values()]


def label(setting: Setting[Any]) -> str:
    return f"{setting.scope}-{setting.name}"


@pytest.mark.parametrize("constant", CONSTANTS)
def test_a_constant_is_called_as_the_setting_is(constant: str) -> None:
    setting = CONSTANTS[constant]
    assert constant == setting.name.removeprefix("ottla.").replace(".", "_").upper()


@pytest.mark.parametrize("setting", EVERY, ids=label)
def test_a_default_is_a_value_like_any_other(setting: Setting[Any]) -> None:
    text = setting.text(setting.default)
    if text is not None:
        assert setting.parse(text) == setting.default


@pytest.mark.parametrize("setting", EVERY, ids=label)
def test_a_purpose_is_one_sentence(setting: Setting[Any]) -> None:
    assert setting.purpose.endswith(".")
    assert setting.purpose[0].isupper()
    assert ". " not in setting.purpose


@pytest.mark.parametrize("setting", EVERY, ids=label)
def test_a_name_with_a_unit_counts_in_that_unit(setting: Setting[Any]) -> None:
    last = setting.name.rsplit(".", 1)[-1]
    if last in {"ms", "bytes", "minutes", "hours", "messages"}:
        assert setting.kind.unit == last


@pytest.mark.parametrize("setting", CONSTANTS.values(), ids=label)
def test_a_fallback_is_a_broker_setting_with_the_same_default(setting: Setting[Any]) -> None:
    names = setting.fallbacks
    assert all(name.setting.scope is Scope.BROKER for name in names)
    defaults = [
        name.in_unit(name.setting.default) for name in names if name.setting.default is not None
    ]
    if setting.scope is Scope.TOPIC and names:
        assert defaults == [setting.default]
    if setting.unsupported_reason:
        assert all(name.setting.unsupported_reason for name in names)


def test_settings_that_kafka_lacks_have_our_prefix() -> None:
    ours = {name for name in BROKER_SETTINGS if name.startswith("ottla.")}
    assert ours == {
        "ottla.auto.create.request.topics.max",
        "ottla.batch.decompressed.max.bytes",
        "ottla.disk.reserve.bytes",
        "ottla.files.open.max",
        "ottla.groups.max",
        "ottla.event.loop.stall.max.ms",
        "ottla.loop.stall.warn.ms",
        "ottla.metrics.host",
        "ottla.metrics.port",
        "ottla.partition.producers.max",
        "ottla.replies.unsent.max.bytes",
        "ottla.request.besides.produce.max.bytes",
        "ottla.request.elements.max",
        "ottla.request.topics.max",
        "ottla.pending.offsets.max",
        "ottla.tail.batches.max",
        "ottla.transaction.partitions.max",
        "ottla.transactional.ids.max",
        "ottla.zookeeper.auth.digest.file",
    }


def test_no_two_settings_share_a_variable() -> None:
    variables = [environment_name(name) for name in BROKER_SETTINGS]
    assert len(set(variables)) == len(variables)
    assert not set(variables) & set(NON_SETTING_VARIABLES)


def test_names_come_in_order() -> None:
    for table in (TOPIC_SETTINGS, BROKER_SETTINGS):
        assert list(table) == sorted(table)
