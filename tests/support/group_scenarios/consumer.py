"""Errors of groups of the consumer protocol: wrong, late or foreign requests."""

from typing import Any

from tests.support.group_scenarios.peer import Peer

NOBODY = "nobody-1"


def entered(peer: Peer, member_id: str, **said: Any) -> Any:
    """The response to a member's join."""
    answer = peer.ask(peer.enter(member_id, **said))
    assert answer.error_code == 0, answer
    return answer


def nobody_knows_the_group(peer: Peer) -> None:
    peer.try_out("heartbeat", peer.pulse(NOBODY, 1))
    peer.try_out("leave", peer.pulse(NOBODY, -1))
    peer.try_out("step aside", peer.pulse(NOBODY, -2, instance_id="i-1"))
    peer.try_out("describe", peer.describe_consumer())
    peer.note("standing", peer.standing())


def what_is_said_makes_no_sense(peer: Peer) -> None:
    peer.try_out("no member id", peer.enter(""))
    peer.try_out("no member id, and not joining", peer.pulse("", 1), 0)
    peer.try_out("an empty instance", peer.enter("m", instance_id=""))
    peer.try_out("an empty rack", peer.enter("m", rack_id=""))
    peer.try_out("no rebalance timeout", peer.enter("m", rebalance_timeout_ms=-1))
    peer.try_out("no subscription", peer.enter("m", subscribed_topic_names=None))
    peer.try_out("no report of what it owns", peer.enter("m", topic_partitions=None))
    peer.try_out("owns something already", peer.enter("m", topic_partitions=peer.owning(0)))
    peer.try_out("an epoch that there is not", peer.pulse("m", -3))
    peer.try_out("steps aside without an instance", peer.pulse("m", -2))
    peer.try_out("an assignor that there is not", peer.enter("m", server_assignor="best"))
    peer.try_out("an empty assignor", peer.enter("m", server_assignor=""))
    for regex in ("(", "[a", "a**", "(?=a)b", r"(a)\1", "*"):
        peer.try_out(f"the pattern {regex}", patterned(peer, "m", regex))
    peer.note("standing", peer.standing())


def patterned(peer: Peer, member_id: str, regex: str) -> Any:
    return peer.enter(member_id, subscribed_topic_names=None, subscribed_topic_regex=regex)


def a_pattern_becomes_none(peer: Peer) -> None:
    peer.try_out("a pattern", patterned(peer, "m", "no-such-.*"))
    peer.try_out("another that is none", patterned(peer, "m", "("))
    epoch = peer.ask(patterned(peer, "m", "no-such-.*")).member_epoch
    peer.try_out("none by a heartbeat", peer.pulse("m", epoch, subscribed_topic_regex="("))
    peer.try_out("heartbeat", peer.pulse("m", epoch))


def a_stranger_asks_a_group_with_members(peer: Peer) -> None:
    epoch = entered(peer, "m").member_epoch
    peer.try_out("heartbeat", peer.pulse(NOBODY, epoch))
    peer.try_out("leave", peer.pulse(NOBODY, -1))
    peer.try_out("of an instance", peer.pulse(NOBODY, epoch, instance_id="i-1"))
    peer.try_out("leave of an instance", peer.pulse(NOBODY, -1, instance_id="i-1"))
    peer.try_out("step aside", peer.pulse(NOBODY, -2, instance_id="i-1"))
    peer.try_out("commit", peer.commit(NOBODY, epoch), 9)
    peer.try_out("commit of a simple consumer", peer.commit(), 9)
    peer.try_out("fetch", peer.fetch(NOBODY, epoch), 9)
    peer.try_out("fetch of anybody", peer.fetch(), 9)
    peer.try_out("delete", peer.delete())
    peer.try_out("delete offsets in use", peer.forget())
    peer.try_out("describe by the other protocol", peer.describe())


def a_member_is_at_another_epoch(peer: Peer) -> None:
    epoch = entered(peer, "m").member_epoch
    for other in (epoch + 1, epoch + 100, epoch - 1):
        peer.try_out(f"heartbeat {other - epoch:+}", peer.pulse("m", other))
        peer.try_out(f"commit {other - epoch:+}", peer.commit("m", other), 9)
        peer.try_out(f"fetch {other - epoch:+}", peer.fetch("m", other), 9)
    peer.try_out("commit before versions knew epochs", peer.commit("m", epoch), 8)
    peer.try_out("commit at none", peer.commit("m", -1), 9)
    peer.try_out("fetch at none", peer.fetch("m", -1), 9)
    peer.try_out("fetch at an epoch of nobody", peer.fetch("", epoch), 9)
    peer.try_out("commit", peer.commit("m", epoch), 9)
    peer.try_out("fetch", peer.fetch("m", epoch), 9)


def an_old_epoch_with_what_it_owns(peer: Peer) -> None:
    """A lost response: a member that repeats its heartbeat gets the response again."""
    entered(peer, "m")
    second = entered(peer, "n")
    first = peer.ask(peer.pulse("m", 2))
    peer.note("told to give up", first.error_code, first.assignment is not None)
    after = peer.ask(peer.pulse("m", first.member_epoch, topic_partitions=peer.owning(0)))
    peer.note("gave up", after.error_code, after.member_epoch - first.member_epoch)
    old = first.member_epoch
    peer.try_out("the same again", peer.pulse("m", old, topic_partitions=peer.owning(0)))
    peer.try_out("more than it has", peer.pulse("m", old, topic_partitions=peer.owning(0, 1)))
    peer.try_out("without what it owns", peer.pulse("m", old))
    peer.try_out("commit at the old epoch", peer.commit("m", old), 9)
    peer.try_out("commit of what it lost", peer.commit("m", old, partition_index=1), 9)
    peer.try_out("the other", peer.pulse("n", second.member_epoch))


def an_instance_has_a_member(peer: Peer) -> None:
    """Left out: it joins again under its own name. We take it, since an answer may have been lost;
    Kafka lets it wait for the end of its session."""
    static = {"instance_id": "i-1"}
    epoch = entered(peer, "m", **static).member_epoch
    peer.try_out("another joins", peer.enter("n", **static))
    peer.try_out("another beats", peer.pulse("n", epoch, **static))
    peer.try_out("another leaves", peer.pulse("n", -1, **static))
    peer.try_out("another steps aside", peer.pulse("n", -2, **static))
    peer.try_out("it steps aside", peer.pulse("m", -2, **static))
    peer.try_out("it beats after that", peer.pulse("m", epoch, **static))
    peer.try_out("it commits after that", peer.commit("m", epoch), 9)
    peer.try_out("another joins then", peer.enter("n", **static))
    peer.try_out("the old one beats", peer.pulse("m", epoch, **static))
    peer.try_out("the old one leaves", peer.pulse("m", -1, **static))
    peer.try_out("the old one commits", peer.commit("m", epoch), 9)
    peer.try_out("the old one joins", peer.enter("m", **static))
    peer.try_out("the new one leaves", peer.pulse("n", -1, **static))
    peer.note("standing", *peer.standing() or ())


def the_group_is_full(peer: Peer) -> None:
    """The brokers have room for two members."""
    entered(peer, "a")
    entered(peer, "b")
    peer.try_out("a third", peer.enter("c"))
    peer.try_out("one that is there joins again", peer.enter("b"))
    peer.try_out("a static third", peer.enter("d", instance_id="i-1"))
    peer.try_out("a classic third", peer.join(), 3)


def a_member_has_left(peer: Peer) -> None:
    epoch = entered(peer, "m").member_epoch
    peer.try_out("commit", peer.commit("m", epoch), 9)
    peer.try_out("leave", peer.pulse("m", -1))
    peer.try_out("leave again", peer.pulse("m", -1))
    peer.try_out("heartbeat", peer.pulse("m", epoch))
    peer.try_out("commit", peer.commit("m", epoch), 9)
    peer.try_out("fetch", peer.fetch("m", epoch), 9)
    peer.try_out("commit of a simple consumer", peer.commit(), 9)
    peer.try_out("a classic heartbeat", peer.beat("m", epoch))
    peer.note("standing", *peer.standing() or ())
    peer.try_out("delete offsets", peer.forget())
    peer.try_out("delete", peer.delete())
    peer.try_out("describe", peer.describe_consumer())


def classic_requests_come_to_it(peer: Peer) -> None:
    epoch = entered(peer, "m", instance_id="i-1").member_epoch
    peer.try_out("heartbeat", peer.beat("m", epoch))
    peer.try_out("heartbeat of a stranger", peer.beat(NOBODY, epoch))
    peer.try_out("sync", peer.sync("m", epoch))
    peer.try_out("sync of a stranger", peer.sync(NOBODY, epoch))
    peer.try_out("join of another type", peer.join(protocol_type="connect"), 3)
    peer.try_out("join without protocols", peer.join(protocols=()), 3)
    peer.try_out("join without an id", peer.join())
    peer.try_out("join with an unknown instance", peer.join(NOBODY, group_instance_id="i-2"))
    peer.try_out("leave of a stranger", peer.leave((NOBODY, None), ("", "i-2")))
    peer.try_out("leave of another by its instance", peer.leave((NOBODY, "i-1")))
    peer.try_out("leave by its instance", peer.leave(("", "i-1")))
    peer.note("standing", *peer.standing() or ())


SCENES = (
    nobody_knows_the_group,
    what_is_said_makes_no_sense,
    a_pattern_becomes_none,
    a_stranger_asks_a_group_with_members,
    a_member_is_at_another_epoch,
    an_old_epoch_with_what_it_owns,
    an_instance_has_a_member,
    the_group_is_full,
    a_member_has_left,
    classic_requests_come_to_it,
)
