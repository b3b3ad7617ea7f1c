"""A group that moves from one protocol to the other and back while it runs, step by step."""

from typing import Any

from tests.support.group_scenarios.peer import Peer, assigned, assigned_count


def rejoined(peer: Peer, what: str, member_id: str, *, owned: tuple[int, ...] = ()) -> Any:
    """A classic member joins and syncs; the response, and the assignment."""
    request = peer.join(member_id, protocols=peer.protocols("range", owned=owned))
    joined = peer.ask(request)
    peer.note(f"{what} joins", joined.error_code, joined.generation_id, joined.protocol_name)
    synced = peer.ask(peer.sync(member_id, joined.generation_id))
    given = assigned_count(synced.assignment) if synced.error_code == 0 else None
    peer.note(f"{what} syncs", synced.error_code, given)
    return joined


def beaten(peer: Peer, what: str, request: Any) -> Any:
    """A member of the consumer protocol beats; where it stands then."""
    told = peer.ask(request)
    given = None
    if told.assignment is not None:
        given = sum(len(each.partitions) for each in told.assignment.topic_partitions)
    peer.note(what, told.error_code, told.member_epoch, given)
    return told


def up_and_down_again(peer: Peer) -> None:
    classic = peer.settle()
    old = (classic.member_id, classic.generation_id)
    peer.note("standing", *peer.standing() or ())
    new = beaten(peer, "the first of the other protocol", peer.enter("n"))
    peer.note("standing", *peer.standing() or ())
    peer.try_out("a classic heartbeat", peer.beat(*old))
    peer.try_out("a classic commit", peer.commit(*old), 9)
    peer.try_out("a classic sync", peer.sync(*old))
    # It has to give up a partition, and joins once more when it has.
    first = rejoined(peer, "the classic one", old[0], owned=(0, 1))
    peer.try_out("it beats", peer.beat(old[0], first.generation_id))
    again = rejoined(peer, "the classic one, having given up,", old[0], owned=(0,))
    at = (old[0], again.generation_id)
    peer.try_out("it beats", peer.beat(*at))
    peer.try_out("it commits", peer.commit(*at), 9)
    peer.try_out("it beats at the old generation", peer.beat(*old))
    told = beaten(peer, "the other takes its share", peer.pulse("n", new.member_epoch))
    peer.try_out("the other beats by the classic protocol", peer.beat("n", told.member_epoch))
    peer.try_out("a consumer of another type", peer.join(protocol_type="connect"), 3)
    peer.try_out("another protocol", peer.join(protocols=peer.protocols("sticky")), 3)
    peer.note("standing", *peer.standing() or ())
    beaten(peer, "the last of the other protocol leaves", peer.pulse("n", -1))
    peer.note("standing", *peer.standing() or ())
    peer.try_out("a classic heartbeat", peer.beat(*at))
    peer.try_out("a heartbeat of who left", peer.pulse("n", told.member_epoch))
    last = peer.ask(peer.join(old[0], protocols=peer.protocols("range", owned=(0,))))
    peer.note("joins", last.error_code, last.generation_id, last.leader == old[0])
    peer.try_out("commit while it completes", peer.commit(old[0], last.generation_id), 9)
    peer.note("standing", *peer.standing() or ())


def a_classic_member_beats_by_the_other_protocol(peer: Peer) -> None:
    beaten(peer, "joins", peer.enter("n"))
    member_id = peer.ask(peer.join()).member_id
    joined = rejoined(peer, "the classic one", member_id)
    beaten(peer, "beats by the other protocol", peer.pulse(member_id, joined.generation_id))
    peer.try_out("and by its own again", peer.beat(member_id, joined.generation_id))
    peer.try_out("joins by the other", peer.enter(member_id))
    peer.note("standing", *peer.standing() or ())


def an_empty_group_becomes_what_comes(peer: Peer) -> None:
    member = peer.settle()
    peer.try_out("commit", peer.commit(member.member_id, member.generation_id), 9)
    peer.try_out("leave", peer.leave((member.member_id, None)))
    beaten(peer, "a member of the other protocol", peer.enter("n"))
    peer.note("standing", *peer.standing() or ())
    (group,) = peer.ask(peer.fetch(), 9).groups
    peer.note("committed", group.topics[0].partitions[0].committed_offset)
    beaten(peer, "leaves", peer.pulse("n", -1))
    later = peer.settle()
    peer.note("a classic one", later.generation_id > 0)
    peer.note("standing", *peer.standing() or ())


def a_classic_member_joins_a_consumer_group(peer: Peer) -> None:
    new = beaten(peer, "joins", peer.enter("n"))
    told = peer.try_out("a classic one asks for an id", peer.join())
    member_id = told.member_id
    joined = rejoined(peer, "the classic one", member_id)
    peer.try_out("it beats", peer.beat(member_id, joined.generation_id))
    gives = beaten(peer, "the other is told", peer.pulse("n", new.member_epoch))
    beaten(
        peer,
        "the other gives up",
        peer.pulse("n", gives.member_epoch, topic_partitions=peer.owning(0)),
    )
    peer.try_out("it is called", peer.beat(member_id, joined.generation_id))
    again = rejoined(peer, "it", member_id)
    peer.try_out("it beats", peer.beat(member_id, again.generation_id))
    peer.try_out("it leaves", peer.leave((member_id, None)))
    peer.note("standing", *peer.standing() or ())


def a_static_member_changes_its_protocol(peer: Peer) -> None:
    classic = peer.settle(instance_id="i-1")
    # We share out anew what a classic leader may have forgotten: our epoch is one ahead of Kafka's.
    new = peer.ask(peer.enter("n", instance_id="i-1"))
    peer.note("comes by the other protocol", new.error_code, new.assignment is not None)
    peer.note("standing", *peer.standing() or ())
    old = (classic.member_id, classic.generation_id)
    peer.try_out("the old one beats", peer.beat(*old, group_instance_id="i-1"))
    peer.try_out("the old one commits", peer.commit(*old), 9)
    back = peer.ask(peer.join(group_instance_id="i-1"))
    peer.note("comes back", back.error_code, back.generation_id - new.member_epoch)
    peer.try_out("the one between beats", peer.pulse("n", new.member_epoch, instance_id="i-1"))
    peer.note("standing", *peer.standing() or ())


def what_cannot_move_stays(peer: Peer) -> None:
    member = peer.ask(peer.join(), 3)
    given = {member.member_id: assigned(peer.topic, (0, 1), b"of its own")}
    peer.try_out("sync", peer.sync(member.member_id, member.generation_id, given))
    peer.try_out("join by the other protocol", peer.enter("n"))
    peer.note("standing", *peer.standing() or ())
    peer.try_out("heartbeat", peer.beat(member.member_id, member.generation_id))


SCENES = (
    up_and_down_again,
    a_classic_member_beats_by_the_other_protocol,
    an_empty_group_becomes_what_comes,
    a_classic_member_joins_a_consumer_group,
    a_static_member_changes_its_protocol,
    what_cannot_move_stays,
)
