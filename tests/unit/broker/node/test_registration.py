"""The registrations of one incarnation: the first one, and those after a lost session."""

from ottla.broker.node.registration import BrokerRegistration
from ottla.metadata.incarnation import serving, write_incarnation
from ottla.metadata.memory import MemoryEnsemble
from ottla.metadata.store import Registration
from ottla.metadata.values import PartitionId
from tests.sim.seams.loop import run
from tests.support.broker.simulated_broker import Machine
from tests.support.metadata.sample_records import topic_id

DAMAGED, OFFLINE = PartitionId(topic_id(1), 0), PartitionId(topic_id(1), 1)


def registered_in(ensemble: MemoryEnsemble) -> Registration:
    (registered,) = ensemble.registered
    return registered.registration


def test_until_it_serves_a_broker_registers_again_with_all_that_it_said_first() -> None:
    machine, ensemble = Machine(), MemoryEnsemble()

    async def tell() -> None:
        files = machine.disk.process()
        files.make_dir("/data")
        boot_id = machine.clock.boot_id()
        write_incarnation(files, "/data", serving("former", boot_id, clean=False))
        registration = BrokerRegistration(
            files=files,
            clock=machine.clock,
            entropy=machine.entropy,
            home="/data",
            broker_id=1,
            rack=None,
        )
        store, own = ensemble.connect(), registration.incarnation_id
        await registration.register(store, (), [DAMAGED])
        first_epoch = registration.broker_epoch

        ensemble.expire(store)
        await registration.register_again(store, [OFFLINE])
        again = registered_in(ensemble)
        assert (again.inherits, again.damaged) == (("former", own), (DAMAGED,))
        assert again.offline == (OFFLINE,)
        assert registration.broker_epoch > first_epoch

        registration.save(clean=False)
        ensemble.expire(store)
        await registration.register_again(store)
        again = registered_in(ensemble)
        assert (again.inherits, again.damaged, again.offline) == ((own,), (), ())

    run(tell(), clock=machine.clock)
