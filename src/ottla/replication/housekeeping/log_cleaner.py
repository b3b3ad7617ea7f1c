"""The log cleaner: compacts one log at a time, the one with the highest dirty ratio first.

A process of its own reads and writes; the broker swaps its outputs in. A process that dies is
started again with the next compaction. A log that cannot be compacted is skipped until the broker
restarts; the event log and the metrics report it.
"""

import asyncio
import json
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol
from weakref import WeakKeyDictionary

from ottla.errors import LogOffline
from ottla.metrics.meters import CleanerMeter
from ottla.protocol.topic_partition import TopicPartition
from ottla.replication.append.flusher import Flusher
from ottla.replication.housekeeping.cleanable_part import CleanerRules, cleaning_job, find_cleanable
from ottla.replication.housekeeping.slices import in_slices
from ottla.replication.replica import Replica
from ottla.replication.replicas import Replicas
from ottla.seams.clock import Clock
from ottla.seams.files import Files
from ottla.seams.threads import Threads
from ottla.seams.workers import Worker, WorkerDied, Workers
from ottla.storage.compaction import rules as compaction_rules
from ottla.storage.compaction.cleaner_protocol import WORKER_MODULE, FailureKind
from ottla.storage.compaction.rules import Cleanable
from ottla.storage.compaction.segment_swap import OutputIsUseless
from ottla.storage.log.log import Log

# A log that kills so many cleaner processes is not compacted again.
DEATHS_MAX = 3


class EventLog(Protocol):
    """The events of the cleaner go here."""

    def info(self, event: str, /, *, repeats_of: str = "", **fields: object) -> None: ...

    def warning(self, event: str, /, *, repeats_of: str = "", **fields: object) -> None: ...

    def error(self, event: str, /, *, repeats_of: str = "", **fields: object) -> None: ...


class Candidate(NamedTuple):
    """A log with compact policy, and its cleanable part."""

    replica: Replica
    log: Log
    found: Cleanable


class _Failed(Exception):
    """The cleaner process could not compact a log."""

    def __init__(self, kind: FailureKind, why: str) -> None:
        super().__init__(why)
        self.kind = kind


class LogCleaner:
    """`run` does not end; `clean_dirtiest` is one step of it.

    `remove_later` removes replaced segments after file.delete.delay.ms.
    """

    def __init__(
        self,
        *,
        replicas: Replicas,
        workers: Workers,
        flusher: Flusher,
        threads: Threads,
        files: Files,
        clock: Clock,
        rules: CleanerRules,
        meter: CleanerMeter,
        event_log: EventLog,
        remove_later: Callable[[Replica, list[str]], None],
    ) -> None:
        # Replaced when a setting changes.
        self.rules = rules
        self._replicas = replicas
        self._workers = workers
        self._flusher = flusher
        self._threads = threads
        self._files = files
        self._clock = clock
        self._meter = meter
        meter.now_ms = self._steady_ms
        self._event_log = event_log
        self._remove_later = remove_later
        self._worker: Worker | None = None
        # The number of processes that died per log; forgotten with the log.
        self._deaths: WeakKeyDictionary[Log, int] = WeakKeyDictionary()
        # By directory and log: a topic created again with the same name is compacted.
        self._uncleanable: dict[str, Log] = {}

    async def run(self) -> None:
        try:
            while True:
                if not (self.rules.is_enabled and await self.clean_dirtiest()):
                    await asyncio.sleep(self.rules.backoff_ms / 1000)
        finally:
            await self._end_worker()

    async def clean_dirtiest(self) -> bool:
        """Compacts the log with the highest dirty ratio. False if none is due, or if it failed."""
        candidates = await self._candidates()
        self._meter.max_dirty_percent = 100 * max(
            (each.found.dirty_ratio for each in candidates), default=0.0
        )
        self._meter.max_compaction_delay_seconds = (
            max((each.found.overdue_ms for each in candidates), default=0) / 1000
        )
        self._meter.last_check_ms = self._steady_ms()
        due = [
            each
            for each in candidates
            if compaction_rules.is_due(each.found, each.replica.rules.compaction)
        ]
        if not due:
            return False
        return await self._clean(max(due, key=lambda each: each.found.dirty_ratio))

    # Choosing

    async def _candidates(self) -> list[Candidate]:
        now_ms = self._clock.wall_ms()
        found = []
        async for replica in in_slices(list(self._replicas), self._clock):
            log = replica.log
            if (
                replica.rules.compaction.compacts
                and log is not None
                and log.offline is None
                and not log.is_moving
                and self._uncleanable.get(log.directory) is not log
            ):
                part = find_cleanable(
                    log, replica.rules.compaction, replica.last_stable_offset, now_ms
                )
                found.append(Candidate(replica, log, part))
        self._show_uncleanable()
        return found

    # Compacting

    async def _clean(self, chosen: Candidate) -> bool:
        replica, log, _ = chosen
        started_ns = self._clock.steady_ns()
        try:
            report = await self._run_job(chosen)
        except WorkerDied as error:
            await self._on_death(replica.name, log, error)
            return False
        except _Failed as error:
            self._on_failure(replica.name, log, error)
            return False
        except (OutputIsUseless, LogOffline) as error:
            # The log was trimmed, truncated or deleted, or its disk failed, which is reported
            # elsewhere.
            self._event_log.info(
                "compaction abandoned", partition=str(replica.name), why=str(error)
            )
            return False
        except OSError as error:
            self._event_log.error(
                "compaction failed", partition=str(replica.name), error=str(error)
            )
            return False
        self._deaths.pop(log, None)
        seconds = (self._clock.steady_ns() - started_ns) / 1e9
        self._meter.record_clean(seconds, report)
        name = str(replica.name)
        seconds = round(seconds, 3)
        where = report.pop("unreadable")
        self._event_log.info(
            "log compacted", repeats_of=name, partition=name, seconds=seconds, **report
        )
        if count := report["unreadable_batches"]:
            # A client wrote them so. They are kept, and everything else was compacted.
            self._event_log.warning("unreadable batches", partition=name, count=count, last=where)
        return True

    async def _run_job(self, chosen: Candidate) -> dict[str, Any]:
        """Runs one compaction: asks the process for outputs and swaps each in."""
        replica, log, _ = chosen
        worker = self._worker = self._worker or await self._workers.start(WORKER_MODULE)
        truncations = log.truncations
        # The markers below the last stable offset must be durable before records go by them.
        await self._flusher.flush(log, log.end_offset)
        now_ms = self._clock.wall_ms()
        # Again: the flush may have made more of the log cleanable.
        found = find_cleanable(log, replica.rules.compaction, replica.last_stable_offset, now_ms)
        if not found.dirty_bytes:
            raise _Failed(FailureKind.GONE, "the log was trimmed meanwhile")
        by_base = {segment.base_offset: segment for segment in log.segments}
        job = cleaning_job(log, found, replica.rules, self.rules, now_ms)
        question: dict[str, Any] = {"clean": job.as_json()}
        while True:
            answer = json.loads(await worker.call(json.dumps(question).encode()))
            if "failed" in answer:
                raise _Failed(FailureKind(answer["failed"]["kind"]), answer["failed"]["why"])
            if "done" in answer:
                report: dict[str, Any] = answer["done"]
                log.cleaned_offset = max(log.cleaned_offset, report["end_offset"])
                return report
            sources = [by_base[base_offset] for base_offset in answer["output"]["sources"]]
            self._remove_later(replica, log.replace_segments(sources, truncations))
            # Not needed for safety: it spares the next start the completion of the swap.
            await self._threads.run(lambda: self._files.sync_dir(log.directory))
            question = {"go_on": True}

    # Failing

    async def _on_death(self, name: TopicPartition, log: Log, error: WorkerDied) -> None:
        await self._end_worker()
        self._meter.worker_deaths += 1
        deaths = self._deaths[log] = self._deaths.get(log, 0) + 1
        self._event_log.warning("cleaner died", partition=str(name), why=str(error), deaths=deaths)
        if deaths >= DEATHS_MAX:
            self._give_up(name, log, f"{deaths} workers died of it")

    def _on_failure(self, name: TopicPartition, log: Log, failure: _Failed) -> None:
        match failure.kind:
            case FailureKind.GONE:
                self._event_log.info("compaction abandoned", partition=str(name), why=str(failure))
            case FailureKind.FULL:
                self._event_log.warning(
                    "compaction failed", partition=str(name), error=str(failure)
                )
            case FailureKind.CORRUPT | FailureKind.DISK:
                self._give_up(name, log, str(failure))

    def _give_up(self, name: TopicPartition, log: Log, why: str) -> None:
        self._deaths.pop(log, None)
        self._uncleanable[log.directory] = log
        self._show_uncleanable()
        self._event_log.error("log cannot be compacted", partition=str(name), why=why)

    def _show_uncleanable(self) -> None:
        """Updates the metrics per log directory. Logs that are gone are dropped."""
        logs = {id(replica.log) for replica in self._replicas}
        self._uncleanable = {
            directory: log for directory, log in self._uncleanable.items() if id(log) in logs
        }
        self._meter.uncleanable_partitions.clear()
        self._meter.uncleanable_bytes.clear()
        for directory, log in self._uncleanable.items():
            log_dir = directory.rpartition("/")[0]
            count = self._meter.uncleanable_partitions.get(log_dir, 0)
            self._meter.uncleanable_partitions[log_dir] = count + 1
            size_bytes = self._meter.uncleanable_bytes.get(log_dir, 0)
            self._meter.uncleanable_bytes[log_dir] = size_bytes + log.size_bytes

    def _steady_ms(self) -> int:
        return self._clock.steady_ns() // 1_000_000

    async def _end_worker(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            await worker.close()
