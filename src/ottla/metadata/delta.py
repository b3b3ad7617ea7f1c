"""What a jump from one image to a later one changed, for whoever follows by records.

A broker that fell behind a snapshot never sees the entries between. What they did is told in the
same words, so that whoever acts on changes needs no second way to hear of them.
"""

from collections.abc import Iterator

from ottla.metadata.image import Image
from ottla.metadata.records import Acl, Config, Feature, Quota, Record, TopicDeleted, User
from ottla.metadata.values import ResourceKind


def difference(before: Image, after: Image) -> Iterator[Record]:
    """First what is gone, then what is new or is different now.

    It is no entry: between these records and `before` the rules of the image do not hold.
    """
    for name in sorted(before.topic_names):
        topic = before.topic(name)
        if topic is not None and after.topic_by_id(topic.topic_id) is None:
            yield TopicDeleted(topic.topic_id, name)
    yield from _settings_gone(before, after)
    yield from _rights_gone(before, after)
    known = set(before.snapshot().records)
    for record in after.snapshot().records:
        if record not in known:
            yield record


def _settings_gone(before: Image, after: Image) -> Iterator[Record]:
    for kind, name in sorted(before.configured):
        # A topic's settings go with it, and nobody is told of them one by one.
        if kind is ResourceKind.TOPIC and after.topic(name) is None:
            continue
        for key in sorted(before.configs(kind, name).keys() - after.configs(kind, name).keys()):
            yield Config(kind, name, key, None)
    for name in sorted(before.features.keys() - after.features.keys()):
        yield Feature(name, 0)


def _rights_gone(before: Image, after: Image) -> Iterator[Record]:
    kept = set(after.acls)
    for binding in before.acls:
        if binding not in kept:
            yield Acl(binding, in_force=False)
    for user in sorted(before.users.keys() - after.users.keys()):
        yield User(user.name, user.mechanism, None)
    for entity, quotas in before.quotas.items():
        for key in sorted(quotas.keys() - after.quotas.get(entity, {}).keys()):
            yield Quota(entity, key, None)
