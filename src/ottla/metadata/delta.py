"""The delta between two images, as records.

A broker that fell behind a snapshot does not get the entries before it. Subscribers get the delta
instead, in the same form, so they need no second code path.
"""

from collections.abc import Iterator

from ottla.metadata.image import Image
from ottla.metadata.records import Acl, Config, Feature, Quota, Record, TopicDeleted, User
from ottla.metadata.values import ResourceKind


def image_delta(before: Image, after: Image) -> Iterator[Record]:
    """First the removals, then new and changed records.

    It is not an entry: the rules of the image do not allow to apply these records to `before`.
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
        # TopicDeleted includes the topic's configs.
        if kind is ResourceKind.TOPIC and after.topic(name) is None:
            continue
        for key in sorted(before.configs(kind, name).keys() - after.configs(kind, name).keys()):
            yield Config(kind, name, key, None)
    for name in sorted(before.features.keys() - after.features.keys()):
        yield Feature(name, None)


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
