"""Errors of classic groups and offsets: wrong, late or foreign requests."""

from tests.support.group_scenarios.peer import SESSION_MS, Peer, assigned

NOBODY = "nobody-1"
# Where a scene waits for its end; what happens before takes no time to speak of.
REBALANCE_MS = 10_000


def nobody_knows_the_group(peer: Peer) -> None:
    peer.try_out("heartbeat", peer.beat(NOBODY, 1))
    peer.try_out("sync", peer.sync(NOBODY, 1))
    peer.try_out("join with an id", peer.join(NOBODY))
    peer.try_out("leave", peer.leave((NOBODY, None)))
    peer.try_out("leave of a static member", peer.leave(("", "i-1")))
    peer.try_out("commit by a member", peer.commit(NOBODY, 1), 8)
    peer.try_out("commit by a member, later", peer.commit(NOBODY, 1), 9)
    peer.try_out("fetch", peer.fetch(), 9)
    peer.try_out("fetch by a member", peer.fetch(NOBODY, 1), 9)
    peer.try_out("describe", peer.describe(), 5)
    peer.try_out("describe, later", peer.describe())
    peer.try_out("delete", peer.delete())
    peer.try_out("delete offsets", peer.forget())


def the_group_has_no_name(peer: Peer) -> None:
    peer.group = ""
    peer.try_out("join", peer.join(), 3)
    peer.try_out("sync", peer.sync(NOBODY, 1))
    peer.try_out("heartbeat", peer.beat(NOBODY, 1))
    peer.try_out("leave", peer.leave((NOBODY, None)))
    peer.try_out("commit", peer.commit(), 8)
    peer.try_out("commit by a member", peer.commit(NOBODY, 1), 9)
    peer.try_out("fetch", peer.fetch(), 9)
    peer.try_out("describe", peer.describe())
    peer.try_out("delete", peer.delete())
    peer.try_out("delete offsets", peer.forget())
    peer.try_out("describe by the other protocol", peer.describe_consumer())
    peer.try_out("join by the other protocol", peer.enter("m"))


def a_member_is_of_another_generation(peer: Peer) -> None:
    member = peer.settle()
    for generation in (member.generation_id - 1, member.generation_id + 1):
        peer.try_out("heartbeat", peer.beat(member.member_id, generation))
        peer.try_out("sync", peer.sync(member.member_id, generation))
        for version in (2, 7, 8, 9):
            peer.try_out("commit", peer.commit(member.member_id, generation), version)
    peer.try_out("commit at none", peer.commit(member.member_id, -1), 8)
    peer.try_out("commit", peer.commit(member.member_id, member.generation_id), 9)
    peer.try_out("heartbeat", peer.beat(member.member_id, member.generation_id))


def a_stranger_asks_a_group_with_members(peer: Peer) -> None:
    member = peer.settle()
    peer.try_out("heartbeat", peer.beat(NOBODY, member.generation_id))
    peer.try_out("heartbeat of nobody", peer.beat("", member.generation_id))
    peer.try_out("sync", peer.sync(NOBODY, member.generation_id))
    peer.try_out("join with an id", peer.join(NOBODY))
    peer.try_out("join with an id and an instance", peer.join(NOBODY, group_instance_id="i-1"))
    peer.try_out("leave", peer.leave((NOBODY, None), ("", "i-1"), (NOBODY, "i-1")))
    peer.try_out("commit", peer.commit(NOBODY, member.generation_id), 8)
    peer.try_out("commit", peer.commit(NOBODY, member.generation_id), 9)
    peer.try_out("commit of an instance", peer.commit(NOBODY, 1, group_instance_id="i-1"), 9)
    peer.try_out("commit of a simple consumer", peer.commit(), 9)
    peer.try_out("delete", peer.delete())
    peer.try_out("delete offsets that are in use", peer.forget())
    peer.try_out("delete offsets of another topic", peer.forget("no-such-topic"))
    peer.try_out("describe by the other protocol", peer.describe_consumer())
    peer.try_out("heartbeat of the other protocol", peer.pulse(NOBODY, 1))
    peer.try_out("leave by the other protocol", peer.pulse(member.member_id, -1))


def an_id_was_given_out_and_not_used(peer: Peer) -> None:
    told = peer.try_out("join without an id", peer.join())
    peer.try_out("heartbeat", peer.beat(told.member_id, 1))
    peer.try_out("sync", peer.sync(told.member_id, 1))
    peer.try_out("commit", peer.commit(told.member_id, 1), 9)
    peer.try_out("leave", peer.leave((told.member_id, None)))
    peer.try_out("join after leaving", peer.join(told.member_id))


def a_static_member_was_replaced(peer: Peer) -> None:
    old = peer.settle(instance_id="i-1")
    new = peer.ask(peer.join(group_instance_id="i-1"))
    peer.note("its successor", new.error_code, new.generation_id == old.generation_id)
    instance = {"group_instance_id": "i-1"}
    for member_id in (old.member_id, NOBODY):
        peer.try_out("heartbeat", peer.beat(member_id, new.generation_id, **instance))
        peer.try_out("sync", peer.sync(member_id, new.generation_id, **instance))
        peer.try_out("commit", peer.commit(member_id, new.generation_id, **instance), 8)
        peer.try_out("commit", peer.commit(member_id, new.generation_id, **instance), 9)
        peer.try_out("join", peer.join(member_id, **instance))
        peer.try_out("leave", peer.leave((member_id, "i-1")))
    peer.try_out("without its instance", peer.beat(old.member_id, new.generation_id))
    peer.try_out("of another instance", peer.beat(new.member_id, 1, group_instance_id="i-2"))
    peer.try_out("commit without its instance", peer.commit(new.member_id, new.generation_id), 9)


def protocols_do_not_fit(peer: Peer) -> None:
    peer.try_out("no protocols", peer.join(protocols=()), 3)
    peer.try_out("no type", peer.join(protocol_type=""), 3)
    member = peer.settle()
    peer.try_out("another type", peer.join(protocol_type="connect"), 3)
    peer.try_out("another protocol", peer.join(protocols=peer.protocols("sticky")), 3)
    peer.try_out("no protocols", peer.join(protocols=()), 3)
    at = (member.member_id, member.generation_id)
    peer.try_out("sync of another type", peer.sync(*at, protocol_type="connect"))
    peer.try_out("sync of another protocol", peer.sync(*at, protocol_name="sticky"))
    peer.try_out("sync that names none", peer.sync(*at, protocol_type=None, protocol_name=None))
    peer.try_out("sync", peer.sync(*at))


def sessions_are_out_of_bounds(peer: Peer) -> None:
    for session_ms in (-1, 0, 1, 999, 1_800_001, 2**31 - 1):
        peer.try_out(f"{session_ms} ms", peer.join(session_timeout_ms=session_ms), 3)


def the_group_is_full(peer: Peer) -> None:
    """The limit is two members: a third one replaces a member that does not rejoin."""
    soon = {"rebalance_timeout_ms": REBALANCE_MS}
    first = peer.settle(**soon)
    joining = peer.send(peer.join(**soon), 3)
    peer.until(lambda: peer.standing() == ("classic", "PreparingRebalance"))
    peer.try_out("a third without an id", peer.join(**soon), 3)
    given = peer.try_out("a third that asks for an id", peer.join())
    if given.member_id:
        peer.try_out("a third with its id", peer.join(given.member_id))
    again = peer.ask(peer.join(first.member_id))
    peer.note("those who were there", again.error_code, joining.answer().error_code)


def a_rebalance_is_going_on(peer: Peer) -> None:
    first = peer.settle()
    at = (first.member_id, first.generation_id)
    joining = peer.send(peer.join(), 3)
    peer.until(lambda: peer.standing() == ("classic", "PreparingRebalance"))
    peer.try_out("heartbeat while it prepares", peer.beat(*at))
    peer.try_out("sync while it prepares", peer.sync(*at))
    peer.try_out("commit while it prepares", peer.commit(*at), 9)
    peer.try_out("delete while it prepares", peer.delete())
    again, second = peer.ask(peer.join(first.member_id)), joining.answer()
    peer.note("generations", again.generation_id, second.generation_id)
    for member in (again, second):
        now = (member.member_id, member.generation_id)
        peer.try_out("heartbeat while it completes", peer.beat(*now))
        peer.try_out("commit while it completes", peer.commit(*now), 8)
        peer.try_out("commit while it completes", peer.commit(*now), 9)
    peer.try_out("commit at the old generation", peer.commit(*at), 9)
    syncing = peer.send(peer.sync(second.member_id, second.generation_id))
    given = {
        again.member_id: assigned(peer.topic, (0,)),
        second.member_id: assigned(peer.topic, (1,)),
    }
    peer.try_out("the leader's sync", peer.sync(again.member_id, again.generation_id, given))
    peer.note("the other's sync", syncing.answer().error_code)


def a_member_was_silent_for_too_long(peer: Peer) -> None:
    member = peer.settle()
    before = (member.member_id, member.generation_id)
    peer.try_out("commit in time", peer.commit(*before), 9)
    # From here on there is no hurry: it may be out before it has what it was given.
    again = peer.ask(peer.join(member.member_id, session_timeout_ms=1_000))
    peer.note("a short session", again.error_code, again.generation_id)
    at = (member.member_id, again.generation_id)
    peer.ask(peer.sync(*at, {member.member_id: assigned(peer.topic, (0, 1))}))
    peer.until(lambda: peer.standing() == ("classic", "Empty"))
    peer.try_out("heartbeat", peer.beat(*at))
    peer.try_out("sync", peer.sync(*at))
    peer.try_out("commit", peer.commit(*at), 8)
    peer.try_out("commit", peer.commit(*at), 9)
    peer.try_out("leave", peer.leave((member.member_id, None)))
    peer.try_out("join", peer.join(member.member_id))
    successor = peer.settle()
    peer.try_out("commit after its successor came", peer.commit(*at), 9)
    peer.try_out("at the new generation", peer.commit(at[0], successor.generation_id), 9)


def offsets_that_cannot_be_committed(peer: Peer) -> None:
    longest = "x" * 4096
    peer.try_out("metadata as long as may be", peer.commit(committed_metadata=longest), 9)
    peer.try_out("metadata too long", peer.commit(committed_metadata=longest + "x"), 9)
    # It is the characters that count.
    peer.try_out("metadata of wide characters", peer.commit(committed_metadata="é" * 4096), 9)
    peer.try_out("no metadata", peer.commit(committed_metadata=None), 9)
    peer.try_out("no such topic", peer.commit(topic="no-such-topic"), 9)
    peer.try_out("no such topic id", peer.commit(topic_id=type(peer.topic_id)(b"x" * 16)), 10)
    peer.try_out("no such partition", peer.commit(partition_index=99), 9)
    peer.try_out("partition -1", peer.commit(partition_index=-1), 9)
    peer.try_out("offset -1", peer.commit(committed_offset=-1), 9)
    peer.try_out("offset far ahead", peer.commit(committed_offset=2**62), 9)


def nobody_is_left(peer: Peer) -> None:
    member = peer.settle()
    peer.try_out("leave", peer.leave((member.member_id, None)))
    peer.try_out("leave again", peer.leave((member.member_id, None)))
    peer.note("standing", *peer.standing() or ())
    peer.try_out("commit by who left", peer.commit(member.member_id, member.generation_id), 9)
    peer.try_out("commit of a simple consumer", peer.commit(), 9)
    peer.try_out("commit of no member at a generation", peer.commit("", 1), 9)
    peer.try_out("delete offsets", peer.forget())
    peer.try_out("delete offsets of no topic", peer.forget("no-such-topic"))
    peer.try_out("delete", peer.delete())
    peer.try_out("delete again", peer.delete())
    peer.note("standing", peer.standing())


def a_simple_consumer_has_committed(peer: Peer) -> None:
    peer.try_out("commit", peer.commit(), 9)
    peer.try_out("commit by a member", peer.commit(NOBODY, 1), 9)
    peer.try_out("commit by a member at none", peer.commit(NOBODY, -1), 9)
    peer.try_out("heartbeat", peer.beat(NOBODY, 1))
    peer.try_out("describe", peer.describe())
    peer.try_out("describe by the other protocol", peer.describe_consumer())
    peer.try_out("heartbeat of the other protocol", peer.pulse(NOBODY, 1))
    peer.try_out("delete", peer.delete())


def a_protocol_type_of_its_own_stays_opaque(peer: Peer) -> None:
    member = peer.settle(protocol_type="connect")
    peer.try_out("heartbeat", peer.beat(member.member_id, member.generation_id))
    peer.try_out("a consumer joins", peer.join(), 3)
    peer.try_out("a consumer joins by the other protocol", peer.enter("m"))
    peer.try_out("delete offsets", peer.forget())
    peer.note("standing", *peer.standing() or ())


def too_short_a_time(peer: Peer) -> None:
    for wait_ms in (-1, 0, SESSION_MS):
        joined = peer.ask(peer.join(rebalance_timeout_ms=wait_ms), 3)
        peer.note(f"a rebalance timeout of {wait_ms} ms", joined.error_code)
        # With no time at all it is out before.
        peer.ask(peer.leave((joined.member_id, None)))


SCENES = (
    nobody_knows_the_group,
    the_group_has_no_name,
    a_member_is_of_another_generation,
    a_stranger_asks_a_group_with_members,
    an_id_was_given_out_and_not_used,
    a_static_member_was_replaced,
    protocols_do_not_fit,
    sessions_are_out_of_bounds,
    the_group_is_full,
    a_rebalance_is_going_on,
    a_member_was_silent_for_too_long,
    offsets_that_cannot_be_committed,
    nobody_is_left,
    a_simple_consumer_has_committed,
    a_protocol_type_of_its_own_stays_opaque,
    too_short_a_time,
)
