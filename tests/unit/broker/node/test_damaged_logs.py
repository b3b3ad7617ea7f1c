"""Logs that lost records while the broker was down are named to the controller."""

import pytest

from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from tests.sim.seams.loop import run
from tests.support.broker.produce_and_fetch import batch, only, produce
from tests.support.broker.simulated_broker import Machine, create, new_topic


def losses(machine: Machine) -> list[object]:
    """The partitions of which the last start has reported a possible loss."""
    return [
        fields["partition"]
        for _, event, fields in machine.notes.entries
        if event == "possible data loss"
    ]


@pytest.mark.parametrize("directory", ["/a", "/b"])
def test_a_log_that_was_removed_is_not_taken_for_an_empty_one(directory: str) -> None:
    machine = Machine()
    settings = {"log_dirs": "/a,/b"}

    async def tell() -> None:
        async with machine.broker(**settings) as client:
            for number in range(6):
                await create(client, new_topic(f"t{number}"))
                # The last one stays empty, and has no log.
                if number < 5:
                    answer = await client.ask(produce(f"t{number}", batch(b"x")), 9)
                    assert only(answer).error_code == 0
        files = machine.disk.process()
        kept = sorted(name for name in files.list(directory) if name.startswith("t"))
        lost, path = kept[0], f"{directory}/{kept[0]}"
        assert len(kept) > 1
        for name in files.list(path):
            files.remove(f"{path}/{name}")
        files.remove_dir(path)
        async with machine.broker(**settings):
            assert losses(machine) == [lost]
        # It is the log of the partition from then on.
        machine.notes.entries.clear()
        async with machine.broker(**settings):
            assert losses(machine) == []

    run(tell(), clock=machine.clock)


def test_a_deleted_topic_of_the_same_name_is_no_loss() -> None:
    machine = Machine()

    async def tell() -> None:
        async with machine.broker() as client:
            await create(client, new_topic("events"))
            assert only(await client.ask(produce("events", batch(b"x")), 9)).error_code == 0
        async with machine.broker() as client:
            await client.ask(DeleteTopicsRequest(topic_names=("events",), timeout_ms=1_000), 5)
            await create(client, new_topic("events"))
        async with machine.broker():
            assert losses(machine) == []

    run(tell(), clock=machine.clock)
