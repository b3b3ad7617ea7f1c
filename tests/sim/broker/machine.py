"""The one machine of a simulation with a single broker."""

from tests.sim.broker.witness import Witness
from tests.sim.machine import Machine as SimulatedMachine
from tests.sim.seams.clock import SimClock
from tests.sim.seams.entropy import SimEntropy
from tests.sim.seams.net import SimNetwork
from tests.sim.seams.trace import Trace

HOST = "broker"
PORT = 9092


class Machine(SimulatedMachine):
    """A machine with a network and a clock of its own."""

    def __init__(self, seed: int, witness: Witness, **settings: str) -> None:
        entropy = SimEntropy(seed)
        trace = Trace()
        super().__init__(
            HOST,
            entropy,
            witness,
            clock=SimClock(),
            network=SimNetwork(entropy.fork("network"), trace=trace),
            trace=trace,
            settings={
                "log.dirs": "/data",
                "listeners": f"PLAINTEXT://0.0.0.0:{PORT}",
                "ottla.disk.reserve.bytes": "0",
                # With the other checkpoints.
                "replica.high.watermark.checkpoint.interval.ms": "60000",
                **settings,
            },
        )
