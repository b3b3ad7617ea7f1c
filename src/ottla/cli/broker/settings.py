"""A broker's settings from the options of `ottla serve` and `up`."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ottla.address import PORT_DEFAULT, Address
from ottla.cli.shared.failure import ExitCode, Failure
from ottla.cli.shared.name_value_pairs import parse_assignments
from ottla.settings.broker import BrokerSettings
from ottla.settings.setting import BadSetting, ConfigSource, UnknownSetting
from ottla.settings.sources import CONFIG_FILE_BYTES_MAX, load
from ottla.settings.table.node import LISTENERS, LOG_DIRS, METRICS_PORT, NODE_ID
from ottla.settings.table.zookeeper import ZOOKEEPER_CONNECT

HOST_DEFAULT = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFlags:
    """The options of the command line; None if not given."""

    data: str | None = None
    host: str | None = None
    port: int | None = None
    metrics_port: int | None = None
    zookeeper: str | None = None
    sets: Sequence[str] = ()
    config: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFlags:
    """The options of several brokers that one supervisor runs."""

    brokers: int
    # None for as many as before, or the default.
    zookeeper_servers: int | None = None
    # Whether a process that ended is started again.
    restarts: bool = True


def load_settings(
    flags: BrokerFlags,
    environment: Mapping[str, str],
    defaults: Mapping[str, str] | None = None,
) -> BrokerSettings:
    """The settings in force. Failure for unknown and contradictory ones."""
    given = parse_assignments(flags.sets, "--set")
    if flags.data is not None:
        check_not_empty(flags.data)
    for flag, value, name in (
        ("--data", os.path.abspath(flags.data) if flags.data is not None else None, LOG_DIRS.name),
        ("--metrics-port", flags.metrics_port, METRICS_PORT.name),
        ("--zookeeper", flags.zookeeper, ZOOKEEPER_CONNECT.name),
    ):
        if value is not None:
            if name in given:
                raise _contradiction(flag, f"--set {name}")
            given[name] = str(value)
    content = None if flags.config is None else _read(flags.config)
    try:
        settings = load(given=given, environment=environment, file=content, defaults=defaults)
        if flags.host is None and flags.port is None:
            return settings
        if settings.source_of(LISTENERS) is not ConfigSource.DEFAULT:
            flag = "--host" if flags.port is None else "--port"
            raise _contradiction(flag, LISTENERS.name)
        given[LISTENERS.name] = _listener(flags)
        return load(given=given, environment=environment, file=content, defaults=defaults)
    except UnknownSetting as error:
        raise Failure(str(error), exit_code=ExitCode.NOT_FOUND) from None
    except BadSetting as error:
        raise Failure(str(error), exit_code=ExitCode.USAGE) from None


def check_not_empty(data: str) -> None:
    """Failure for an empty path, such as a script's unset variable."""
    if not data:
        raise Failure("--data is empty", exit_code=ExitCode.USAGE)


def data_directory(settings: BrokerSettings) -> str:
    """The first log directory, which also holds the files that are not logs."""
    return os.path.abspath(settings[LOG_DIRS][0])


def node_id(settings: BrokerSettings) -> int:
    return settings[NODE_ID]


def _listener(flags: BrokerFlags) -> str:
    host = HOST_DEFAULT if flags.host is None else flags.host
    port = PORT_DEFAULT if flags.port is None else flags.port
    return f"PLAINTEXT://{Address(host, port)}"


def _contradiction(flag: str, other: str) -> Failure:
    return Failure(
        f"{flag} and {other} set the same thing",
        advice=f"leave out one of them: {other} is enough",
        exit_code=ExitCode.USAGE,
    )


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        # One byte more than allowed: `load` refuses a file that is too large.
        return file.read(CONFIG_FILE_BYTES_MAX + 1)
