"""The options of a source, parsed and validated into one value."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from ottla.client.connection.bootstrap import parse_addresses
from ottla.client.errors import BadAddress
from ottla.client.options import ClientOptions
from ottla.errors import OttlaError
from ottla.nearest import did_you_mean
from ottla.protocol.isolation_level import Isolation
from ottla.protocol.offset_spec import OffsetSpec
from ottla.protocol.topic_partition import TopicPartition
from ottla.spark import option_table as table
from ottla.spark.micro_batch import TriggerLimits
from ottla.spark.offsets import AtOffsets, AtTime, BadOffsets, Edge, OffsetRangeLimit
from ottla.spark.option_table import (
    IsolationLevel,
    Mode,
    NoMatchStrategy,
    Option,
    Verdict,
    find_option,
    option_names,
)
from ottla.spark.plan import SplitLimits

T = TypeVar("T")

# The length to which an error shortens a wrong value.
SHOWN_VALUE_CHARACTERS_MAX = 200


class BadOption(OttlaError, ValueError):
    """An invalid option. The message names it, the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class TopicNames:
    """Topics by name."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TopicPattern:
    """Topics whose full name matches a pattern."""

    pattern: str


@dataclass(frozen=True, slots=True)
class AssignedPartitions:
    """An explicit list of partitions."""

    partitions: tuple[TopicPartition, ...]


Subscription = TopicNames | TopicPattern | AssignedPartitions


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """All options of a source."""

    bootstrap_servers: str
    client: ClientOptions
    subscription: Subscription
    starting: OffsetRangeLimit
    ending: OffsetRangeLimit
    on_no_match: NoMatchStrategy
    limits: TriggerLimits
    split_limits: SplitLimits
    include_headers: bool
    fail_on_data_loss: bool
    isolation: Isolation
    fetch_bytes: int
    push_filters: bool
    group_id: str | None
    # The given options that have no effect, and why.
    warnings: tuple[str, ...]


def read_options(given: Mapping[str, str], mode: Mode) -> SourceOptions:
    """Parses options by name; the case of names does not matter. BadOption."""
    texts = {name.lower(): text for name, text in given.items()}
    checked = _Checked(texts, mode)
    return SourceOptions(
        bootstrap_servers=_bootstrap_servers(checked),
        client=_client_options(checked),
        subscription=_subscription(checked),
        starting=_starting(checked, mode),
        ending=_ending(checked),
        on_no_match=checked.value(table.STARTING_STRATEGY),
        limits=_limits(checked),
        split_limits=SplitLimits(
            checked.given(table.MIN_PARTITIONS), checked.given(table.MAX_RECORDS_PER_PARTITION)
        ),
        include_headers=checked.value(table.INCLUDE_HEADERS),
        fail_on_data_loss=checked.value(table.FAIL_ON_DATA_LOSS),
        isolation=(
            Isolation.READ_COMMITTED
            if checked.value(table.ISOLATION_LEVEL) is IsolationLevel.READ_COMMITTED
            else Isolation.READ_UNCOMMITTED
        ),
        fetch_bytes=checked.value(table.FETCH_BYTES),
        push_filters=checked.value(table.FILTER_PUSHDOWN),
        group_id=checked.given(table.GROUP_ID),
        warnings=tuple(checked.warnings),
    )


class _Checked:
    """Options that are all in the table and allowed in this mode."""

    def __init__(self, texts: Mapping[str, str], mode: Mode) -> None:
        self.warnings: list[str] = []
        self._texts: dict[str, str] = {}
        for name, text in texts.items():
            if self._counts(name, mode):
                self._texts[name] = text
        # Validated here: no other code reads it.
        self.value(table.SECURITY_PROTOCOL)

    def _counts(self, name: str, mode: Mode) -> bool:
        row = find_option(name)
        if row is None:
            raise BadOption(
                f"no option '{name}'{did_you_mean(name, option_names())}: see the list in"
                " docs/spark-options.md, or leave it out"
            )
        shown = name if row.is_prefix else row.name
        if row.verdict is Verdict.REFUSED:
            raise BadOption(f"the option {shown} cannot be used. {row.purpose}")
        if row.verdict is Verdict.IGNORED:
            self.warnings.append(f"the option {shown} is ignored. {row.purpose}")
            return False
        if mode not in row.modes:
            other = Mode.STREAM if mode is Mode.BATCH else Mode.BATCH
            if row.is_refused_in_other_mode:
                raise BadOption(f"the option {shown} is for a {other}, but this is a {mode}")
            self.warnings.append(
                f"the option {shown} is ignored. It is for a {other}, but this is a {mode}."
            )
            return False
        return True

    def has(self, option: Option[Any]) -> bool:
        return option.name.lower() in self._texts

    def given(self, option: Option[T]) -> T | None:
        """The value; None if the option was not given."""
        text = self._texts.get(option.name.lower())
        if text is None:
            return None
        try:
            return option.value_format.parse(text)
        except BadOffsets as error:
            raise BadOption(f"the option {option.name}: {error}") from None
        except ValueError:
            shown = text[:SHOWN_VALUE_CHARACTERS_MAX]
            raise BadOption(
                f"the option {option.name} is {shown!r}: it must be {option.value_format.allowed}"
            ) from None

    def value(self, option: Option[T]) -> T:
        """The value, or the default for an option that has one."""
        found = self.given(option)
        return option.value_format.parse(cast("str", option.default)) if found is None else found


def _bootstrap_servers(checked: _Checked) -> str:
    servers = checked.given(table.BOOTSTRAP_SERVERS)
    if servers is None:
        raise BadOption(
            "the option kafka.bootstrap.servers is missing: it lists brokers to connect to first, "
            'such as "localhost:9092"'
        )
    try:
        parse_addresses(servers)
    except BadAddress as error:
        raise BadOption(f"the option kafka.bootstrap.servers: {error}") from None
    return servers


def _subscription(checked: _Checked) -> Subscription:
    ways = (table.SUBSCRIBE, table.PATH, table.SUBSCRIBE_PATTERN, table.ASSIGN)
    found = [way.name for way in ways if checked.has(way)]
    if len(found) != 1:
        names = "subscribe (or a topic in load), subscribePattern and assign"
        said = f"{' and '.join(found)} are given" if found else "none is given"
        raise BadOption(f"exactly one of the options {names} must be given: {said}")
    topics = checked.given(table.SUBSCRIBE) or checked.given(table.PATH)
    if topics is not None:
        return TopicNames(topics)
    pattern = checked.given(table.SUBSCRIBE_PATTERN)
    if pattern is not None:
        return TopicPattern(pattern)
    return AssignedPartitions(checked.given(table.ASSIGN) or ())


def _starting(checked: _Checked, mode: Mode) -> OffsetRangeLimit:
    by_time = checked.given(table.STARTING_TIMESTAMP)
    if by_time is not None:
        return AtTime(by_time)
    place = checked.given(table.STARTING_OFFSETS_BY_TIMESTAMP) or checked.given(
        table.STARTING_OFFSETS
    )
    if place is None:
        return Edge.EARLIEST if mode is Mode.BATCH else Edge.LATEST
    if mode is Mode.BATCH and _names(place, Edge.LATEST, OffsetSpec.LATEST):
        raise BadOption(
            "the option startingOffsets: a batch that starts at latest (-1) would read nothing"
        )
    return place


def _ending(checked: _Checked) -> OffsetRangeLimit:
    by_time = checked.given(table.ENDING_TIMESTAMP)
    if by_time is not None:
        return AtTime(by_time)
    by_times = checked.given(table.ENDING_OFFSETS_BY_TIMESTAMP)
    if by_times is not None:
        return by_times
    place = checked.value(table.ENDING_OFFSETS)
    if _names(place, Edge.EARLIEST, OffsetSpec.EARLIEST):
        raise BadOption(
            "the option endingOffsets: a batch that ends at earliest (-2) would read nothing"
        )
    return place


def _names(place: OffsetRangeLimit, edge: Edge, at: OffsetSpec) -> bool:
    return place is edge or (isinstance(place, AtOffsets) and at in place.offsets.values())


def _limits(checked: _Checked) -> TriggerLimits:
    most = checked.given(table.MAX_OFFSETS_PER_TRIGGER)
    least = checked.given(table.MIN_OFFSETS_PER_TRIGGER)
    if most is not None and least is not None and least > most:
        raise BadOption(
            f"the option minOffsetsPerTrigger is {least}, above maxOffsetsPerTrigger, {most}"
        )
    return TriggerLimits(most, least, checked.value(table.MAX_TRIGGER_DELAY))


def _client_options(checked: _Checked) -> ClientOptions:
    return ClientOptions(
        client_id=checked.value(table.CLIENT_ID),
        request_timeout_ms=checked.value(table.REQUEST_TIMEOUT),
        default_api_timeout_ms=checked.value(table.API_TIMEOUT),
        socket_connection_setup_timeout_ms=checked.value(table.SETUP_TIMEOUT),
        retry_backoff_ms=checked.value(table.RETRY_BACKOFF),
        retry_backoff_max_ms=checked.value(table.RETRY_BACKOFF_MAX),
    )
