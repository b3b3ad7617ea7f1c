"""The simulated ensemble, where several brokers share one log."""

import asyncio

import pytest

from ottla.metadata.store import Entry, Fenced
from tests.sim.metadata_store import SimEnsemble
from tests.sim.seams.loop import run
from tests.support.metadata.sample_records import ONE_OF_EACH, registration


def test_a_controller_that_lost_its_session_is_fenced_by_the_next() -> None:
    async def steps() -> None:
        ensemble = SimEnsemble()
        first, second = ensemble.connect(), ensemble.connect()
        old = await first.campaign()
        waiting = asyncio.create_task(second.campaign())
        await asyncio.sleep(10)
        assert not waiting.done()
        ensemble.expire(first)
        new = await waiting
        assert new.epoch > old.epoch
        with pytest.raises(Fenced):
            await first.append(ONE_OF_EACH, old)
        n = await second.append(ONE_OF_EACH, new)
        assert await anext(first.follow(n)) == Entry(n, ONE_OF_EACH)

    run(steps())


def test_a_broker_with_a_lost_session_is_no_longer_registered() -> None:
    async def steps() -> None:
        ensemble = SimEnsemble()
        first, second = ensemble.connect(), ensemble.connect()
        await first.register(registration(1))
        epoch = await second.register(registration(2))
        members = second.registered_brokers()
        assert [member.registration.broker_id for member in await anext(members)] == [1, 2]
        ensemble.expire(first)
        assert [member.incarnation for member in await anext(members)] == [(2, epoch)]
        await second.close()
        assert ensemble.members == {}

    run(steps())
