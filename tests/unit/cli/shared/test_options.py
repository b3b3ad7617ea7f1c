"""`OTTLA_BOOTSTRAP`: the cluster of a command without `--bootstrap`."""

import pytest

from ottla.cli.broker.settings import BrokerFlags, load_settings
from ottla.testing.broker import Broker
from tests.support.cli.run_command import ottla


def test_the_variable_names_the_brokers_and_the_option_counts_first(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTTLA_BOOTSTRAP", broker.bootstrap_servers)
    assert ottla("topic", "list").exit_code == 0
    assert ottla("topic", "list", "--bootstrap", "127.0.0.1:1").exit_code == 3


def test_it_is_no_setting_of_a_broker() -> None:
    assert load_settings(BrokerFlags(), {"OTTLA_BOOTSTRAP": "far:1"}) is not None
