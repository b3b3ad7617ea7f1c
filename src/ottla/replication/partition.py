"""The state of one partition on a broker: leader, ISR and high watermark. Does no I/O.

The high watermark is the smallest log end offset of the in-sync replicas. Consumers read below it,
and `acks=all` waits for it. It does not move while the ISR is smaller than `min.insync.replicas`.

A leader that has asked the controller for another ISR does not know when the change is in force. So
until it is settled, the high watermark also waits for the members of that ISR (the maximal ISR).
"""

from ottla.errors import ErrorCode, PeerError
from ottla.metadata import records
from ottla.metadata.values import Incarnation
from ottla.protocol.primitives import NO_LEADER_EPOCH, Uuid
from ottla.replication.follower_progress import FollowerProgress, LagTicks
from ottla.replication.local_broker import LocalBroker
from ottla.tuples import maker

Members = tuple[Incarnation, ...]

_make_progress = maker(FollowerProgress)


class Partition:
    """Changes by `assign`, with records of the metadata log; on the leader by `appended`, `fetched`
    and ISR changes; on a follower by `replicated` and `truncated`.
    """

    __slots__ = (
        "_lag_ticks",
        "_me",
        "asked_isr",
        "commits_alone",
        "end_offset",
        "epoch_start_offset",
        "followers",
        "high_watermark",
        "index",
        "is_in_sync",
        "is_leader",
        "isr",
        "lag_due_offset",
        "leader",
        "leader_epoch",
        "leaders_high_watermark",
        "min_isr",
        "partition_epoch",
        "replicas",
        "topic_id",
    )

    def __init__(self, topic_id: Uuid, index: int, me: LocalBroker) -> None:
        self.topic_id = topic_id
        self.index = index
        self.leader: Incarnation | None = None
        self.leader_epoch = NO_LEADER_EPOCH
        self.partition_epoch = -1
        self.replicas: tuple[int, ...] = ()
        self.isr: Members = ()
        self.min_isr = 1
        self.high_watermark = 0
        # The log end offset of the last `appended` or `replicated`.
        self.end_offset = 0
        self.epoch_start_offset = 0
        self._me = me
        # Kept as a field, because every request reads it.
        self.is_leader = False
        # Whether the ISR is large enough for `acks=all`.
        self.is_in_sync = False
        # Whether the leader is the whole maximal ISR, and that satisfies `min.insync.replicas`.
        self.commits_alone = False
        # By broker id; those that have fetched in this leader epoch.
        self.followers: dict[int, FollowerProgress] = {}
        # The ISR that the leader has asked for, while the outcome is open.
        self.asked_isr: Members | None = None
        self._lag_ticks = LagTicks()
        # A follower whose log ends below this lags.
        self.lag_due_offset = -1
        # As of the leader's last answer to this follower.
        self.leaders_high_watermark = 0

    @property
    def leader_id(self) -> int | None:
        return None if self.leader is None else self.leader.broker_id

    @property
    def is_committed_to_epoch(self) -> bool:
        """Whether all records of earlier leaders are committed. Only then is the end known."""
        return self.high_watermark >= self.epoch_start_offset

    def assign(self, record: records.Partition, end_offset: int) -> bool:
        """Takes a record of the metadata log. True if this broker begins to lead a new epoch."""
        leads = self._me.leads_as(record.leader)
        begins = leads and (not self.is_leader or record.leader_epoch > self.leader_epoch)
        self.leader = record.leader
        self.is_leader = leads
        self.leader_epoch = record.leader_epoch
        self.partition_epoch = record.partition_epoch
        self.replicas = record.replicas
        self.isr = record.isr
        self.min_isr = record.min_isr
        self.is_in_sync = len(self.isr) >= self.min_isr_in_force
        if begins:
            self.epoch_start_offset = end_offset
        if begins or not leads:
            self._forget_followers()
        # The controller changes this record only, so an earlier request can no longer succeed.
        self.asked_isr = None
        self._update_commits_alone()
        self.end_offset = end_offset
        self._advance()
        return begins

    def resign(self) -> None:
        """This broker stops leading: the partition is no longer here, or the session was lost."""
        self.leader = None
        self.is_leader = False
        self.asked_isr = None
        self._forget_followers()
        self._update_commits_alone()

    def _forget_followers(self) -> None:
        self.followers.clear()
        self._lag_ticks.clear()
        self.lag_due_offset = -1

    # On the leader

    def appended(self, end_offset: int) -> bool:
        """Takes the new log end offset. True if the high watermark moved."""
        self.end_offset = end_offset
        if not self.commits_alone or end_offset <= self.high_watermark:
            # With followers it moves when the last of them has fetched the records.
            return False
        self.high_watermark = end_offset
        return True

    def fetched(self, follower: Incarnation, offset: int, start_offset: int) -> bool:
        """A follower fetches from `offset`: it has all before. True if the high watermark moved."""
        known = self.followers.get(follower.broker_id)
        if known is not None and known.incarnation.broker_epoch > follower.broker_epoch:
            # A request of a former incarnation that was on its way for long.
            return False
        self.followers[follower.broker_id] = _make_progress((follower, offset, start_offset))
        return self._advance()

    def _advance(self) -> bool:
        """Moves the high watermark to the least log end offset of the maximal ISR."""
        if not self.is_leader or not self.is_in_sync:
            return False
        least = self.end_offset
        leader, followers = self.leader, self.followers
        for member in self.isr if self.asked_isr is None else self.maximal_isr:
            if member != leader:
                progress = followers.get(member.broker_id)
                if progress is None or progress.incarnation != member:
                    return False
                if progress.end_offset < least:
                    least = progress.end_offset
        if least <= self.high_watermark:
            return False
        self.high_watermark = least
        return True

    @property
    def maximal_isr(self) -> Members:
        """The ISR, and those who may have joined it."""
        if self.asked_isr is None:
            return self.isr
        return self.isr + tuple(each for each in self.asked_isr if each not in self.isr)

    def isr_asked(self, isr: Members) -> None:
        """The controller is asked for this ISR."""
        self.asked_isr = isr
        self._update_commits_alone()

    def isr_refused(self, isr: Members) -> bool:
        """The controller has refused this ISR for good. True if the high watermark moved."""
        if self.asked_isr != isr:
            return False
        self.asked_isr = None
        self._update_commits_alone()
        return self._advance()

    def _update_commits_alone(self) -> None:
        self.commits_alone = (
            self.is_leader and len(self.maximal_isr) == 1 and self.min_isr_in_force <= 1
        )

    def tick(self) -> None:
        """A tick of the leader, by which it measures how far its followers are behind."""
        self.lag_due_offset = self._lag_ticks.tick(self.end_offset)

    # On a follower

    def replicated(self, end_offset: int, leaders_high_watermark: int) -> bool:
        """Takes its own log end and the leader's high watermark. True if its own one moved."""
        self.end_offset = end_offset
        self.leaders_high_watermark = leaders_high_watermark
        high_watermark = min(end_offset, leaders_high_watermark)
        if high_watermark <= self.high_watermark:
            return False
        self.high_watermark = high_watermark
        return True

    def truncated(self, end_offset: int) -> None:
        """The log ends here now. Below the high watermark only after an unclean election."""
        self.end_offset = end_offset
        self.high_watermark = min(self.high_watermark, end_offset)

    @property
    def lag(self) -> int:
        """How many committed offsets this follower lacks, as of the leader's last answer."""
        return 0 if self.is_leader else max(0, self.leaders_high_watermark - self.end_offset)

    # Checks of requests

    @property
    def min_isr_in_force(self) -> int:
        """`min.insync.replicas`, at most the number of replicas."""
        return min(self.min_isr, len(self.replicas))

    def check_leadership(self, current_leader_epoch: int = NO_LEADER_EPOCH) -> None:
        """Raises PeerError unless this broker leads the partition, in the client's leader epoch."""
        if current_leader_epoch != self.leader_epoch:
            self.check_leader_epoch(current_leader_epoch)
        if not self.is_leader:
            raise PeerError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, "this broker does not lead the partition"
            )

    def check_leader_epoch(self, current_leader_epoch: int) -> None:
        """Raises PeerError unless the leader epoch that the client sent is the current one.

        An older epoch is fenced; a newer one is of an election that this broker has not seen yet.
        """
        if current_leader_epoch != NO_LEADER_EPOCH and current_leader_epoch != self.leader_epoch:
            if current_leader_epoch < self.leader_epoch:
                raise PeerError(
                    ErrorCode.FENCED_LEADER_EPOCH,
                    f"leader epoch {current_leader_epoch} is over, {self.leader_epoch} has begun",
                )
            raise PeerError(
                ErrorCode.UNKNOWN_LEADER_EPOCH,
                f"leader epoch {current_leader_epoch} is not known here, {self.leader_epoch} is",
            )

    def check_in_sync(self) -> None:
        """Raises PeerError if the ISR is too small for `acks=all`."""
        if not self.is_in_sync:
            raise PeerError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{len(self.isr)} in sync where {self.min_isr_in_force} are needed",
            )
