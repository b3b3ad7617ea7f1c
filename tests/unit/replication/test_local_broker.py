"""A broker leads only under the epoch that the metadata log gives to its incarnation."""

from dataclasses import replace

from ottla.metadata.values import BrokerState, Incarnation
from ottla.replication.local_broker import LocalBroker
from tests.support.metadata.sample_records import broker

MINE = broker(1, 7, incarnation_id="mine", state=BrokerState.STARTING)


def test_it_leads_nothing_before_its_record() -> None:
    me = LocalBroker(1, "mine")
    assert me.incarnation is None
    assert not me.leads_as(None)
    me.follow(broker(1, 7, incarnation_id="another"))
    me.follow(broker(1, 7))
    me.follow(broker(2, 7, incarnation_id="mine"))
    assert me.incarnation is None
    me.follow(MINE)
    assert me.leads_as(Incarnation(1, 7))
    assert not me.leads_as(Incarnation(1, 6))
    assert not me.leads_as(Incarnation(2, 7))


def test_a_broker_that_is_gone_leads_nothing() -> None:
    me = LocalBroker(1, "mine")
    me.follow(MINE)
    me.follow(replace(MINE, state=BrokerState.GONE))
    assert not me.leads_as(Incarnation(1, 7))


def test_after_a_lost_session_only_a_later_epoch_counts() -> None:
    me = LocalBroker(1, "mine")
    me.follow(MINE)
    me.lose_session(7)
    # Committed before the controller noticed.
    me.follow(replace(MINE, state=BrokerState.UP))
    assert me.incarnation is None
    me.follow(replace(MINE, epoch=9))
    assert me.leads_as(Incarnation(1, 9))
