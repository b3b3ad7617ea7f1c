"""Produce requests of one connection, answered in their order whatever the order of completion."""

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.broker.net.response_queue import WAITING_PRODUCES_MAX
from tests.sim.seams.clock import SimClock
from tests.sim.seams.loop import run
from tests.support.broker.produce_frames import (
    OTHERS,
    SILENT,
    ProduceFrames,
    letter_of,
    request,
)
from tests.unit.broker.net.test_waiting_produces import Place

# Mostly produces that wait for replication.
LETTERS = "aaaaaagggginnwzef"
# The requests of which an idempotent producer's next batch may be appended at once.
OVERTAKEN = "aginn"


def check_order(sent: list[bytes], frames: ProduceFrames, answered: list[bytes]) -> None:
    """What holds at any time: `handled` and `answered` are beginnings of what was sent."""
    assert frames.handled == sent[: len(frames.handled)]
    with_response = [each for each in sent if letter_of(each) not in SILENT]
    assert answered == with_response[: len(answered)]
    unanswered = [
        each for each in frames.handled if letter_of(each) not in SILENT and each not in answered
    ]
    assert len(unanswered) <= WAITING_PRODUCES_MAX + 1
    # Behind a request that waits, only produces are handled, and none behind one without a place
    # in the log.
    for number, each in enumerate(unanswered):
        if number:
            assert letter_of(each) not in OTHERS
        if number < len(unanswered) - 1:
            assert letter_of(each) in OVERTAKEN


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_order_of_completion_gives_the_order_of_the_requests(data: st.DataObject) -> None:
    clock = SimClock()
    letters = data.draw(st.lists(st.sampled_from(LETTERS), min_size=1, max_size=90))
    sent = [request(letter, number) for number, letter in enumerate(letters)]

    async def story() -> None:
        frames = ProduceFrames()
        place = Place(clock, frames)
        await place.open()
        answered: Any = place.peer.frames
        unsent = list(sent)
        while unsent or frames.waiting or frames.gathered:
            step = data.draw(st.sampled_from(["send", "commit", "commit", "settle"]))
            if step == "send" and unsent:
                count = data.draw(st.integers(1, 6))
                place.peer.send(*unsent[:count])
                del unsent[:count]
            elif step == "commit" and frames.waiting:
                for _ in range(data.draw(st.integers(1, 4))):
                    if frames.waiting:
                        frames.commit(data.draw(st.sampled_from(sorted(frames.waiting))))
            else:
                frames.settle_gathered()
            if data.draw(st.booleans()):
                await asyncio.sleep(0.1)
            check_order(sent, frames, answered)
        await asyncio.sleep(1)
        while frames.waiting or frames.gathered:
            frames.settle_gathered()
            for frame in sorted(frames.waiting):
                frames.commit(frame)
            await asyncio.sleep(0.1)
        assert frames.handled == sent
        assert answered == [each for each in sent if letter_of(each) not in SILENT]
        assert frames.faults == []
        assert place.connections.held_bytes == 0

    run(story(), clock=clock)
