"""`ottla cluster promote`: a broker that was alone becomes the first one of a cluster."""

import asyncio
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from enum import Enum

from ottla.broker.event_log import Level, NodeLogger
from ottla.broker.node.zookeeper_store import connect_zookeeper, zookeeper_access
from ottla.cli.broker.proc_table import LOCK_FILE, process_using
from ottla.cli.broker.settings import BrokerFlags, load_settings
from ottla.cli.shared.failure import ExitCode, Failure
from ottla.cli.shared.output import RowWriter, say
from ottla.errors import StoreUnusable
from ottla.metadata import applied_offset
from ottla.metadata.embedded.entry_log import PARTITION
from ottla.metadata.embedded.store import EmbeddedStore
from ottla.metadata.image import Image
from ottla.metadata.rebase import rebased
from ottla.metadata.snapshot_packing import pack
from ottla.metadata.zookeeper.access import ZooKeeperAccess
from ottla.metadata.zookeeper.promotion import (
    FORMAT,
    SNAPSHOT_OFFSET,
    Found,
    Promotion,
    look,
    publish,
    stage,
)
from ottla.metadata.zookeeper.znodes import Znodes
from ottla.seams.clock import RealClock
from ottla.seams.entropy import Entropy, RealEntropy
from ottla.seams.files import Files, RealFiles, replace_file
from ottla.seams.threads import RealThreads
from ottla.storage.directory.checkpoint_files import META_PROPERTIES, MetaProperties
from ottla.storage.directory.directory import STRAY_SUFFIX

TOKEN_BYTES = 16


class Step(Enum):
    """What is left to do."""

    PROMOTE = "promote"
    PUBLISH = "complete the promotion"
    NOTHING = "nothing: it is promoted"


@dataclass(frozen=True, slots=True)
class SingleBroker:
    """The disk of the broker. `tokens` are of promotions that have stamped it."""

    data: str
    meta: MetaProperties
    image: Image | None
    tokens: Sequence[str]


def promote(
    data: str,
    zookeeper: str,
    *,
    sets: Sequence[str],
    config: str | None,
    writer: RowWriter,
    may_act: bool,
) -> None:
    """Shows the plan, and executes it with `may_act`. Failure."""
    flags = BrokerFlags(data=data, zookeeper=zookeeper, sets=tuple(sets), config=config)
    settings = load_settings(flags, os.environ)
    data = os.path.abspath(data)
    files = RealFiles()
    try:
        access = zookeeper_access(settings, files)
        with ExitStack() as exits:
            _lock(files, data, exits)
            asyncio.run(_promote(files, data, access, writer, may_act=may_act))
    except StoreUnusable as error:
        code = ExitCode.UNREACHABLE if error.is_unreachable else ExitCode.FAILED
        raise Failure(error.what, why=error.why, advice=error.advice, exit_code=code) from error


async def _promote(
    files: Files, data: str, access: ZooKeeperAccess, writer: RowWriter, *, may_act: bool
) -> None:
    broker = await read_broker(files, data)
    threads = RealThreads()
    try:
        # Without the chroot, which a connection would create.
        root = replace(access, connect=access.connect._replace(chroot=""))
        znodes = await _connect(root, threads)
        try:
            found = await look(znodes, access.connect.chroot)
        finally:
            await znodes.close()
        step = next_step(broker, found, str(access.connect))
        _show_plan(broker, step, str(access.connect), writer)
        if step is Step.NOTHING:
            say(f"nothing to do: {data} is of cluster {broker.meta.cluster_id} in this ZooKeeper")
            return
        if not may_act:
            say("nothing was changed: `--yes` writes the metadata to ZooKeeper")
            return
        znodes = await _connect(access, threads)
        try:
            await execute(znodes, files, RealEntropy(), broker, str(access.connect))
        finally:
            await znodes.close()
    finally:
        threads.close()
    say(f"promoted: start it with `ottla serve --data {data} --zookeeper {access.connect}`")


async def read_broker(files: Files, data: str) -> SingleBroker:
    """The broker in a data directory whose lock is held. Failure if it has no metadata."""
    meta = MetaProperties.read(files, data)
    if meta is None:
        raise Failure(
            f"{data} is not a data directory",
            why=f"it has no {META_PROPERTIES}",
            advice="name the directory of the broker with --data",
            exit_code=ExitCode.NOT_FOUND,
        )
    image = None
    if files.is_dir(f"{data}/{PARTITION}"):
        store = EmbeddedStore.open(files, data, RealClock())
        try:
            image = Image.of(await store.load())
        finally:
            await store.close()
    prefix = f"{PARTITION}."
    tokens = [
        name.removeprefix(prefix).removesuffix(STRAY_SUFFIX)
        for name in files.list(data)
        if name.startswith(prefix) and name.endswith(STRAY_SUFFIX)
    ]
    if image is None and not files.exists(f"{data}/{applied_offset.FILE_NAME}"):
        raise Failure(
            f"{data} has no metadata",
            why=f"neither {PARTITION} of a broker that was alone, nor"
            f" {applied_offset.FILE_NAME} of one in a cluster",
            advice="name the directory with the metadata, if the broker has several log.dirs",
            exit_code=ExitCode.NOT_FOUND,
        )
    return SingleBroker(data, meta, image, tokens)


def next_step(broker: SingleBroker, found: Found, where: str) -> Step:
    """Failure if this broker cannot be promoted into this ZooKeeper."""
    cluster_id = broker.meta.cluster_id
    if broker.image is None:
        if found.cluster_id == cluster_id:
            return Step.NOTHING
        promotion = found.promotion
        if promotion is not None and promotion.token in broker.tokens:
            return Step.PUBLISH
        raise Failure(
            f"{broker.data} is of a cluster already, and ZooKeeper at {where} does not have it",
            why=f"its metadata is in another ZooKeeper or chroot, as cluster {cluster_id}",
            advice="name that ZooKeeper, with its chroot, with --zookeeper",
        )
    if found.cluster_id == cluster_id:
        raise Failure(
            f"ZooKeeper at {where} has cluster {cluster_id} already, and {broker.data} still has"
            " metadata of its own",
            why="it is a copy of a broker's data from before it was promoted",
            advice="start the broker with the data that was promoted, or choose another chroot",
        )
    if found.has_nodes:
        named = "a cluster" if found.cluster_id is None else f"cluster {found.cluster_id}"
        raise Failure(
            f"ZooKeeper at {where} has {named}",
            why="a broker can be promoted only into a chroot without one",
            advice="choose another chroot with --zookeeper HOST:PORT/CHROOT",
        )
    if found.promotion is not None and found.promotion.cluster_id != cluster_id:
        raise Failure(
            f"cluster {found.promotion.cluster_id} is being promoted into ZooKeeper at {where}",
            advice="choose another chroot with --zookeeper HOST:PORT/CHROOT",
        )
    return Step.PROMOTE


async def execute(
    znodes: Znodes, files: Files, entropy: Entropy, broker: SingleBroker, where: str
) -> None:
    """Does what is left. An interrupted call can be repeated."""
    found = await look(znodes)
    step = next_step(broker, found, where)
    if step is Step.PROMOTE and broker.image is not None:
        chunks = await pack(rebased(broker.image))
        promotion = Promotion(
            format=FORMAT,
            cluster_id=broker.meta.cluster_id,
            token=entropy.token(TOKEN_BYTES).hex(),
            controller_epoch=broker.image.controller_epoch,
            chunks=len(chunks),
        )
        await stage(znodes, promotion, chunks)
        _stamp(files, broker.data, promotion.token)
    elif step is Step.PUBLISH and found.promotion is not None:
        promotion = found.promotion
    else:
        return
    await publish(znodes, promotion)


def _stamp(files: Files, data: str, token: str) -> None:
    """From here on the broker starts with ZooKeeper only. The rename decides."""
    replace_file(files, f"{data}/{applied_offset.FILE_NAME}", b"%d\n" % SNAPSHOT_OFFSET)
    files.rename(f"{data}/{PARTITION}", f"{data}/{PARTITION}.{token}{STRAY_SUFFIX}")
    files.sync_dir(data)


async def _connect(access: ZooKeeperAccess, threads: RealThreads) -> Znodes:
    logger = NodeLogger(sys.stderr, RealClock(), 0, level=Level.ERROR)
    return await connect_zookeeper(access, threads, logger)


def _lock(files: Files, data: str, exits: ExitStack) -> None:
    """The lock of the broker, which must not run."""
    if not files.exists(f"{data}/{META_PROPERTIES}"):
        return
    try:
        exits.callback(files.lock(f"{data}/{LOCK_FILE}").release)
    except BlockingIOError:
        holder = process_using(data) or "a process that cannot be seen from here"
        raise Failure(
            f"{data} is in use by {holder}",
            why="a broker must not run while its metadata is moved",
            advice="stop it first",
        ) from None


def _show_plan(broker: SingleBroker, step: Step, where: str, writer: RowWriter) -> None:
    image = broker.image
    writer.write(
        {
            "kind": "promotion",
            "name": broker.meta.cluster_id,
            "broker": broker.meta.node_id,
            "data": broker.data,
            "topics": None if image is None else len(list(image.topic_names)),
            "partitions": None if image is None else image.partition_count,
            "zookeeper": where,
            "to_do": step.value,
        }
    )
    writer.close()
