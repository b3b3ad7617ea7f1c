"""The real seams, as far as a test can observe them."""

import asyncio
import errno
import fcntl
import threading
from pathlib import Path

import pytest

from ottla.seams.clock import RealClock
from ottla.seams.entropy import RealEntropy
from ottla.seams.files import Buffer, RealFiles, read_file, write_all
from ottla.seams.net import RealNet
from ottla.seams.threads import RealThreads


class Echo(asyncio.Protocol):
    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


class Collector(Echo):
    def __init__(self) -> None:
        self.received = bytearray()
        self.lost = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(exc)


class DoublingEcho(Echo):
    """Says everything twice and hangs up."""

    def data_received(self, data: bytes) -> None:
        self.transport.writelines([data, data])
        self.transport.close()


def test_a_free_port_listens_until_it_is_closed() -> None:
    async def main() -> None:
        net = RealNet()
        listener = await net.listen(DoublingEcho, "127.0.0.1", 0)
        port = listener.port
        assert port > 0
        with pytest.raises(OSError) as taken:
            await net.listen(Echo, "127.0.0.1", port)
        assert taken.value.errno == errno.EADDRINUSE
        client = await net.connect(Collector, "127.0.0.1", port)
        assert isinstance(client, Collector)
        client.transport.write(b"hello")
        assert await client.lost is None
        assert client.received == b"hellohello"
        await listener.close()
        with pytest.raises(ConnectionRefusedError):
            await net.connect(Collector, "127.0.0.1", port)

    asyncio.run(main())


def test_threads_work_beside_the_loop_and_hand_errors_over() -> None:
    async def main() -> None:
        threads = RealThreads(workers_max=1)
        assert await threads.run(threading.get_ident) != threading.get_ident()
        with pytest.raises(ZeroDivisionError):
            await threads.run(lambda: 1 / 0)
        threads.close()
        with pytest.raises(RuntimeError, match="after shutdown"):
            await threads.run(threading.get_ident)

    asyncio.run(main())


def test_the_boot_id_stays_and_the_clocks_run() -> None:
    clock = RealClock()
    assert clock.boot_id() == clock.boot_id()
    assert len(clock.boot_id()) == 36
    assert clock.steady_ns() <= clock.steady_ns()
    assert clock.wall_ms() > 1_600_000_000_000


def test_tokens_differ_and_choices_stay_in_bounds() -> None:
    entropy = RealEntropy()
    assert len(entropy.token(16)) == 16
    assert entropy.token(16) != entropy.token(16)
    assert {entropy.below(3) for _ in range(200)} == {0, 1, 2}


class Grudging:
    """A file that takes a few bytes at a time, and in the end none."""

    path = "/grudging"

    def __init__(self, *sizes: int) -> None:
        self._sizes = list(sizes)
        self.content = b""

    def write_at(self, position: int, parts: list[Buffer]) -> int:
        assert position == len(self.content)
        taken = b"".join(parts)[: self._sizes.pop(0)]
        self.content += taken
        return len(taken)


def test_write_all_goes_on_after_a_short_write() -> None:
    file = Grudging(2, 3, 99)
    assert write_all(file, 0, [b"abc", b"defg", b"hi"]) == 9  # type: ignore[arg-type]
    assert file.content == b"abcdefghi"


def test_write_all_is_a_full_disk_when_nothing_more_is_taken() -> None:
    file = Grudging(2, 0)
    with pytest.raises(OSError, match="2 of 3") as caught:
        write_all(file, 0, [b"abc"])  # type: ignore[arg-type]
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.filename == "/grudging"


def test_a_real_file_has_a_descriptor(tmp_path: Path) -> None:
    files = RealFiles()
    file = files.create(f"{tmp_path}/a")
    assert file.fileno() > 2
    write_all(file, 0, [b"x"])
    file.close()
    assert (tmp_path / "a").read_bytes() == read_file(files, f"{tmp_path}/a") == b"x"


def test_a_lock_on_a_file_that_was_just_removed_is_taken_on_the_one_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else two would hold a lock of one name: one on a file that nobody finds any more."""
    files, path = RealFiles(), tmp_path / ".lock"
    flock = fcntl.flock
    opened = []

    def removed_after_opening(descriptor: int, operation: int) -> None:
        flock(descriptor, operation)
        if not opened:
            path.unlink()
        opened.append(descriptor)

    monkeypatch.setattr(fcntl, "flock", removed_after_opening)
    lock = files.lock(str(path))
    assert path.exists()
    with pytest.raises(BlockingIOError):
        files.lock(str(path))
    lock.release()
