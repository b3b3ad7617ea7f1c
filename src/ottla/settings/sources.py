"""The sources of a broker's settings: `--set`, the environment, a file, and the defaults."""

from collections.abc import Iterable, Mapping
from typing import Any

from ottla.nearest import did_you_mean
from ottla.settings.broker import BrokerSettings, Layer
from ottla.settings.group import check_broker_bounds
from ottla.settings.listener_protocols import check_listeners
from ottla.settings.setting import BadSetting, ConfigSource, UnknownSetting
from ottla.settings.table import BROKER_SETTINGS, TOPIC_SETTINGS
from ottla.settings.table.network import QUEUED_MAX_REQUEST_BYTES, SOCKET_REQUEST_MAX_BYTES

CONFIG_FILE_BYTES_MAX = 1 << 20

ENVIRONMENT_PREFIX = "OTTLA_"
_OUR_PREFIX = "ottla."
# Variables with our prefix that are not settings, and their meaning.
NON_SETTING_VARIABLES: Mapping[str, str] = {
    "OTTLA_BOOTSTRAP": "the default of `--bootstrap`",
    "OTTLA_SEEDS": "the number of seeds that the simulations run",
    "OTTLA_SEEDS_FROM": "the first of these seeds",
    "OTTLA_SEED": "the only seed that they run",
    "OTTLA_MUTANT_SEEDS": "the number of seeds that they run to find a planted bug",
}


def load(
    *,
    given: Mapping[str, str],
    environment: Mapping[str, str],
    file: bytes | None,
    defaults: Mapping[str, str] | None = None,
) -> BrokerSettings:
    """The settings of a broker at its start. BadSetting names the source, the setting, the value
    and the allowed values.

    In order of precedence: `given` holds the `--set` options by name, then the environment, then
    `file`, the content of a TOML file, then `defaults` that differ from the table's.
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
    """A setting's environment variable: `OTTLA_LOG_RETENTION_HOURS`. The prefix `ottla.` of our
    own settings is not repeated."""
    return ENVIRONMENT_PREFIX + name.removeprefix(_OUR_PREFIX).replace(".", "_").upper()


def _layer(found: Iterable[tuple[str, str, str]]) -> Layer:
    """Parses (name, text, origin) triples."""
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
    why = f"{name} is a topic setting"
    fallbacks = TOPIC_SETTINGS[name].fallbacks
    if fallbacks:
        why += f"; the broker's default for it is {fallbacks[0].setting.name}"
    return why


def _from_environment(environment: Mapping[str, str]) -> Iterable[tuple[str, str, str]]:
    names = {environment_name(name): name for name in BROKER_SETTINGS}
    for variable, text in environment.items():
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable in NON_SETTING_VARIABLES:
            continue
        if variable not in names:
            raise UnknownSetting(
                f"environment: no setting has the variable '{variable}'"
                f"{did_you_mean(variable, names)}"
            )
        yield names[variable], text, f"environment, {variable}"


def _from_file(content: bytes) -> Iterable[tuple[str, str, str]]:
    # Imported here: the import is slow, and most brokers have no file.
    import tomllib

    if len(content) > CONFIG_FILE_BYTES_MAX:
        raise BadSetting(f"config file: larger than {CONFIG_FILE_BYTES_MAX} bytes")
    try:
        document = tomllib.loads(content.decode())
    # The parser raises RecursionError for deeply nested values.
    except (ValueError, RecursionError) as error:
        raise BadSetting(f"config file: not TOML: {error}") from None
    for name, value in document.items():
        yield name, _toml_text(name, value), "config file"


def _toml_text(name: str, value: object) -> str:
    """A TOML value in the notation of `--set name=`."""
    match value:
        case bool():
            return "true" if value else "false"
        case str() | int() | float():
            return str(value)
        case list() if all(isinstance(item, str) for item in value):
            return ",".join(value)
        case dict():
            raise BadSetting(
                f"config file: {name} is a table; quote names with dots, as in "
                '"log.retention.hours" = 24'
            )
    raise BadSetting(
        f"config file: the value of {name} is not a string, number, boolean or list of strings"
    )


def _check_together(settings: BrokerSettings) -> None:
    """BadSetting if values that are allowed by themselves contradict each other."""
    queued, request = settings[QUEUED_MAX_REQUEST_BYTES], settings[SOCKET_REQUEST_MAX_BYTES]
    if queued < request:
        raise BadSetting(
            f"Invalid value {queued} for configuration {QUEUED_MAX_REQUEST_BYTES.name}: "
            f"must be at least {SOCKET_REQUEST_MAX_BYTES.name}, which is {request}"
        )
    check_broker_bounds(settings)
    check_listeners(settings)
