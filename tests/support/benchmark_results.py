"""Results as a run would leave them, for the tests of what is made of them."""

from benchmarks.comparing import Hold
from benchmarks.peers.peer import Peer
from benchmarks.results import Result, Side
from benchmarks.row import CpuPer, Figure, Ran, Row, Scope


class NoLoad:
    """A load that is never run."""

    def prepare(self, _peer: Peer, _scope: Scope, /) -> None: ...

    def run(self, peer: Peer, scope: Scope) -> Ran:
        raise AssertionError("a load of these tests was run")

    def finish(self, peer: Peer) -> None: ...


def row(name: str, hold: Hold | None, cpu_hold: Hold | None = None) -> Row:
    figure = Figure(name="rate", unit="messages/s", hold=hold, estimate=1.25, because="a reason")
    return Row(
        group="bulk produce",
        name=name,
        load=NoLoad(),
        figures=(figure,),
        cpu_per=CpuPer.GB,
        cpu_hold=cpu_hold,
    )


def side(rates: list[float], cpu_s: list[float]) -> Side:
    runs = [Ran(figures={"rate": rate}, payload_bytes=1e9) for rate in rates]
    return Side(runs, cpu_s)


def result(of: Row, kafka: list[float], ours: list[float], cpu: tuple[float, float]) -> Result:
    return Result(
        of,
        base=side(kafka, [cpu[0]] * len(kafka)),
        ours=side(ours, [cpu[1]] * len(ours)),
    )
