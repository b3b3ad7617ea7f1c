"""Value types of settings: each parses text strictly, formats as Kafka does, and describes the
allowed values."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import ClassVar, Generic, TypeVar

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1

# The longest number is "-9223372036854775808"; longer text is refused before it is converted.
_DIGITS_MAX = 20
_EXPONENT_DIGITS_MAX = 3

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)


class ConfigType(IntEnum):
    """Kafka's numbers for value types, as in DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Unit(StrEnum):
    """The unit of a number."""

    NONE = ""
    BYTES = "bytes"
    MS = "ms"
    SECONDS = "seconds"
    MINUTES = "minutes"
    HOURS = "hours"
    MESSAGES = "messages"


class NotAllowed(ValueError):
    """The text is no value of this kind. The message describes the allowed values."""


def _is_whole_number(text: str, digits_max: int) -> bool:
    """ASCII digits, optionally signed. `int` itself accepts blanks, underscores, other digits."""
    digits = _unsigned(text)
    return len(digits) <= digits_max and digits.isascii() and digits.isdecimal()


def _is_decimal(text: str) -> bool:
    """Digits with an optional decimal point, sign and exponent."""
    mantissa, e, exponent = text.replace("E", "e").partition("e")
    if e and not _is_whole_number(exponent, _EXPONENT_DIGITS_MAX):
        return False
    whole, _, fraction = _unsigned(mantissa).partition(".")
    digits = whole + fraction
    return max(len(whole), len(fraction)) <= _DIGITS_MAX and digits.isascii() and digits.isdecimal()


def _unsigned(text: str) -> str:
    return text[1:] if text[:1] in ("+", "-") else text


class Kind(ABC, Generic[T]):
    """Values of one type, to text and back: `parse(format(value)) == value`, except for secrets."""

    config_type: ConfigType
    unit: Unit = Unit.NONE
    is_secret: ClassVar[bool] = False

    @property
    @abstractmethod
    def allowed(self) -> str:
        """The allowed values, as a phrase that follows "must be"."""

    @abstractmethod
    def parse(self, text: str) -> T:
        """The value of a text, without surrounding spaces. NotAllowed if it is none."""

    @abstractmethod
    def format(self, value: T) -> str:
        """The text of a value, as Kafka prints it."""


@dataclass(frozen=True, kw_only=True)
class WholeNumber(Kind[int]):
    """An integer in a range, or one special value outside of it."""

    config_type: ConfigType
    least: int
    most: int
    also_allowed: int | None = None
    unit: Unit = Unit.NONE

    @property
    def allowed(self) -> str:
        number = f"a whole number of {self.unit}" if self.unit else "a whole number"
        also_allowed = "" if self.also_allowed is None else f"{self.also_allowed} or "
        return f"{also_allowed}{number} from {self.least} to {self.most}"

    def parse(self, text: str) -> int:
        text = text.strip()
        if _is_whole_number(text, _DIGITS_MAX):
            value = int(text)
            if self.least <= value <= self.most or value == self.also_allowed:
                return value
        raise NotAllowed(self.allowed)

    def format(self, value: int) -> str:
        return str(value)


def short(least: int, most: int = 2**15 - 1) -> WholeNumber:
    """A 16-bit number."""
    return WholeNumber(config_type=ConfigType.SHORT, least=least, most=most)


def integer(
    least: int = INT_MIN,
    most: int = INT_MAX,
    *,
    also_allowed: int | None = None,
    unit: Unit = Unit.NONE,
) -> WholeNumber:
    """A 32-bit number."""
    return WholeNumber(
        config_type=ConfigType.INT, least=least, most=most, also_allowed=also_allowed, unit=unit
    )


def long(
    least: int = LONG_MIN,
    most: int = LONG_MAX,
    *,
    also_allowed: int | None = None,
    unit: Unit = Unit.NONE,
) -> WholeNumber:
    """A 64-bit number."""
    return WholeNumber(
        config_type=ConfigType.LONG, least=least, most=most, also_allowed=also_allowed, unit=unit
    )


@dataclass(frozen=True)
class Double(Kind[float]):
    """A floating-point number in a finite range."""

    least: float
    most: float
    config_type = ConfigType.DOUBLE

    @property
    def allowed(self) -> str:
        return f"a number from {self.format(self.least)} to {self.format(self.most)}"

    def parse(self, text: str) -> float:
        text = text.strip()
        if _is_decimal(text):
            value = float(text)
            if self.least <= value <= self.most:
                return value
        raise NotAllowed(self.allowed)

    def format(self, value: float) -> str:
        if value == 0 or 1e-3 <= abs(value) < 1e7:
            return repr(value)
        # Java writes smaller and larger numbers as 1.0E-5. 17 digits identify any double.
        shortest = next(
            text for digits in range(17) if float(text := f"{value:.{digits}e}") == value
        )
        mantissa, exponent = shortest.split("e")
        point = "" if "." in mantissa else ".0"
        return f"{mantissa}{point}E{int(exponent)}"


@dataclass(frozen=True)
class Boolean(Kind[bool]):
    """true or false, in any case."""

    config_type = ConfigType.BOOLEAN
    allowed = "true or false"

    def parse(self, text: str) -> bool:
        match text.strip().lower():
            case "true":
                return True
            case "false":
                return False
        raise NotAllowed(self.allowed)

    def format(self, value: bool) -> str:
        return "true" if value else "false"


@dataclass(frozen=True)
class Text(Kind[str]):
    """A non-empty string."""

    config_type = ConfigType.STRING
    allowed = "a non-empty string"

    def parse(self, text: str) -> str:
        if value := text.strip():
            return value
        raise NotAllowed(self.allowed)

    def format(self, value: str) -> str:
        return value


@dataclass(frozen=True)
class OneOf(Kind[E]):
    """A member of an enumeration. Case matters."""

    choices: type[E]
    config_type = ConfigType.STRING

    @property
    def allowed(self) -> str:
        return f"one of {', '.join(self.choices)}"

    def parse(self, text: str) -> E:
        try:
            return self.choices(text.strip())
        except ValueError:
            raise NotAllowed(self.allowed) from None

    def format(self, value: E) -> str:
        return value.value


@dataclass(frozen=True)
class ClassName(OneOf[E]):
    """A Java class of an enumeration, by its whole name or by its name without the package."""

    def parse(self, text: str) -> E:
        for choice in self.choices:
            if text.strip() == choice.value.rpartition(".")[2]:
                return choice
        return super().parse(text)


@dataclass(frozen=True, kw_only=True)
class TextList(Kind[tuple[str, ...]]):
    """A comma-separated list. Duplicates are dropped."""

    choices: tuple[str, ...] = ()
    may_be_empty: bool = True
    config_type = ConfigType.LIST

    @property
    def allowed(self) -> str:
        of = f" of {', '.join(self.choices)}" if self.choices else ""
        return f"a {'' if self.may_be_empty else 'non-empty '}comma-separated list{of}"

    def parse(self, text: str) -> tuple[str, ...]:
        if not text.strip() and self.may_be_empty:
            return ()
        values = tuple(dict.fromkeys(item.strip() for item in text.split(",")))
        if "" in values or (self.choices and not set(values) <= set(self.choices)):
            raise NotAllowed(self.allowed)
        return values

    def format(self, value: tuple[str, ...]) -> str:
        return ",".join(value)


# `*` instead of a list.
ALL_REPLICAS = "*"
# As long as any 32-bit number.
_ID_DIGITS_MAX = 10


@dataclass(frozen=True, kw_only=True)
class ThrottledReplicaList(TextList):
    """Replicas as `partition:broker`, or `*` for all."""

    @property
    def allowed(self) -> str:
        return f"{ALL_REPLICAS} or a comma-separated list of partition:broker"

    def parse(self, text: str) -> tuple[str, ...]:
        values = super().parse(text)
        if values != (ALL_REPLICAS,) and not all(map(_is_replica, values)):
            raise NotAllowed(self.allowed)
        return values


def _is_replica(text: str) -> bool:
    numbers = text.split(":")
    return len(numbers) == 2 and all(
        number.isascii() and number.isdecimal() and len(number) <= _ID_DIGITS_MAX
        for number in numbers
    )


class Secret:
    """A string that no log, traceback or response shows by accident."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return "[hidden]"

    def reveal(self) -> str:
        return self._text


@dataclass(frozen=True)
class Password(Kind[Secret]):
    """A secret, printed as `[hidden]`."""

    config_type = ConfigType.PASSWORD
    allowed = "a non-empty string"
    is_secret = True

    def parse(self, text: str) -> Secret:
        if text:
            return Secret(text)
        raise NotAllowed(self.allowed)

    def format(self, value: Secret) -> str:
        return str(value)
