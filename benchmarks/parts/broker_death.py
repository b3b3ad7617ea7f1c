"""The death of one broker of three that share 10,000 partitions: decided, committed and applied.

Three nodes run in this process, on real disks and sockets, with their metadata in memory.
"""

import asyncio
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.parts.part import Part
from ottla.broker.event_log import StreamLogger
from ottla.broker.node.context import Seams
from ottla.broker.node.node import Node
from ottla.metadata.controller.topic_changes import MAX_PARTITIONS_PER_CHANGE
from ottla.metadata.image import Image
from ottla.metadata.memory import MemoryEnsemble, MemoryStore
from ottla.metadata.records import Partition, Record, Topic
from ottla.metadata.store import MetadataStore
from ottla.protocol.primitives import Uuid
from ottla.seams.clock import RealClock
from ottla.seams.entropy import RealEntropy
from ottla.seams.files import Files, RealFiles
from ottla.seams.net import RealNet
from ottla.seams.threads import RealThreads
from ottla.seams.workers import RealWorkers
from ottla.settings.sources import load
