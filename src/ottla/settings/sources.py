"""Where a broker's settings come from: `--set`, the environment, a file, and last the defaults."""

from collections.abc import Iterable, Mapping
from typing import Any

from ottla.nearest import did_you_mean
from ottla.settings.broker import BrokerSettings, Layer
from ottla.settings.group import check_broker_bounds
from ottla.settings.listener_protocols import check_listeners
from ottla.settings.setting import BadSetting, ConfigSource, UnknownSetting
from ottla.settings.table import BROKER_SETTINGS, TOPIC_SETTINGS
from ottla.settings.table.network import QUEUED_MAX_REQUEST_BYTES, SOCKET_REQUEST_MAX_BYTES

FILE_BYTES_MAX = 1 << 20

ENVIRONMENT_PREFIX = "OTTLA_"
_OUR_PREFIX = "ottla."
# Variables with our prefix that are no settings, and what they are.
ENVIRONMENT_BESIDES: Mapping[str, str] = {
    "OTTLA_BOOTSTRAP": "where commands reach their brokers",
    "OTTLA_SEEDS": "how many seeds the simulations run",
    "OTTLA_SEED": "the one seed that they run",
}


def load(
    *,
    given: Mapping[str, str],
    environment: Mapping[str, str],
    file: bytes | None,
    defaults: Mapping[str, str] | None = None,
) -> BrokerSettings:
    """The settings of a broker that starts. BadSetting names the source, the setting, the value
    and what is allowed.

    `given` is what `--set` says, by name, and counts first; then the environment, then the TOML
    file with this content, then `defaults` that differ from the table's.
    """
    settings = BrokerSettings(
        (
            _layer((name, text, "--set") for name, text in given.items()),
            _layer(_from_environment(environment)),
            _layer(_from_file(file) if file is not None else ()),
            _layer((name, text, "default") for name, text in (defaults or {}).items()),
        )
    )
    _check_together(settings)
    return settings


def environment_name(name: str) -> str:
    """The variable that sets it: `OTTLA_LOG_RETENTION_HOURS`; ours do not repeat the prefix."""
    return ENVIRONMENT_PREFIX + name.removeprefix(_OUR_PREFIX).replace(".", "_").upper()


def _layer(found: Iterable[tuple[str, str, str]]) -> Layer:
    """Reads (name, text, origin) one by one."""
    values: dict[str, Any] = {}
    for name, text, origin in found:
        if name not in BROKER_SETTINGS:
            raise UnknownSetting(f"{origin}: {_why_unknown(name)}")
        try:
            values[name] = BROKER_SETTINGS[name].parse(text)
        except BadSetting as error:
            raise BadSetting(f"{origin}: {error}") from None
    return Layer(ConfigSource.STATIC_BROKER, values)


def _why_unknown(name: str) -> str:
    if name not in TOPIC_SETTINGS:
        return f"no setting '{name}'{did_you_mean(name, BROKER_SETTINGS)}"
    why = f"{name} is a setting of a topic"
    stand_ins = TOPIC_SETTINGS[name].stand_ins
    if stand_ins:
        why += f"; what topics have that do not set it is {stand_ins[0].setting.name}"
    return why


def _from_environment(environment: Mapping[str, str]) -> Iterable[tuple[str, str, str]]:
    names = {environment_name(name): name for name in BROKER_SETTINGS}
    for variable, text in environment.items():
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable in ENVIRONMENT_BESIDES:
            continue
        if variable not in names:
            raise UnknownSetting(
                f"environment: no setting has the variable '{variable}'"
                f"{did_you_mean(variable, names)}"
            )
        yield names[variable], text, f"environment, {variable}"


def _from_file(content: bytes) -> Iterable[tuple[str, str, str]]:
    # Imported here: it is slow to import, and most brokers have no file.
    import tomllib

    if len(content) > FILE_BYTES_MAX:
        raise BadSetting(f"config file: {len(content)} bytes, {FILE_BYTES_MAX} are allowed")
    try:
        document = tomllib.loads(content.decode())
    # What is nested too deeply for the parser is no file of ours either.
    except (ValueError, RecursionError) as error:
        raise BadSetting(f"config file: not TOML: {error}") from None
    for name, value in document.items():
        yield name, _toml_text(name, value), "config file"


def _toml_text(name: str, value: object) -> str:
    """A TOML value as it would be written after `--set name=`."""
    match value:
        case bool():
            return "true" if value else "false"
        case str() | int() | float():
            return str(value)
        case list() if all(isinstance(item, str) for item in value):
            return ",".join(value)
        case dict():
            raise BadSetting(
                f"config file: {name} is a table; names are written in quotes, as in "
                '"log.retention.hours" = 24'
            )
    raise BadSetting(
        f"config file: the value of {name} is no text, number, boolean or list of texts"
    )


def _check_together(settings: BrokerSettings) -> None:
    """What each setting allows by itself may still not fit the others."""
    queued, request = settings[QUEUED_MAX_REQUEST_BYTES], settings[SOCKET_REQUEST_MAX_BYTES]
    if queued < request:
        raise BadSetting(
            f"Invalid value {queued} for configuration {QUEUED_MAX_REQUEST_BYTES.name}: "
            f"allowed is at least {SOCKET_REQUEST_MAX_BYTES.name}, which is {request}"
        )
    check_broker_bounds(settings)
    check_listeners(settings)
