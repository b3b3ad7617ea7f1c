"""Kinds of values: each reads text strictly, prints as Kafka prints, and says what it allows."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import ClassVar, Generic, TypeVar

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1

# The longest is "-9223372036854775808"; what is longer is not worth converting.
_DIGITS_MAX = 20
_EXPONENT_DIGITS_MAX = 3

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)


class ConfigType(IntEnum):
    """Kafka's numbers for the type of a value, as DescribeConfigs has them."""

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
    """What a number counts; Kafka's names carry it."""

    NONE = ""
    BYTES = "bytes"
    MS = "ms"
    MINUTES = "minutes"
    HOURS = "hours"
    MESSAGES = "messages"


class NotAllowed(ValueError):
    """Text that is no value of this kind; the message says what is."""


def _is_whole_number(text: str, digits_max: int) -> bool:
    """ASCII digits, perhaps after a sign. `int` itself takes more: blanks, underscores, scripts."""
    digits = _unsigned(text)
    return len(digits) <= digits_max and digits.isascii() and digits.isdecimal()


def _is_decimal(text: str) -> bool:
    """Digits with a point among or beside them, perhaps a sign and an exponent."""
    mantissa, e, exponent = text.replace("E", "e").partition("e")
    if e and not _is_whole_number(exponent, _EXPONENT_DIGITS_MAX):
        return False
    whole, _, fraction = _unsigned(mantissa).partition(".")
    digits = whole + fraction
    return max(len(whole), len(fraction)) <= _DIGITS_MAX and digits.isascii() and digits.isdecimal()


def _unsigned(text: str) -> str:
    return text[1:] if text[:1] in ("+", "-") else text


class Kind(ABC, Generic[T]):
    """Values of one type: to text and back. `parse(format(value)) == value`, but for secrets."""

    config_type: ConfigType
    unit: Unit = Unit.NONE
    is_secret: ClassVar[bool] = False

    @property
    @abstractmethod
    def allowed(self) -> str:
        """What can be written, in words that go on from "allowed is"."""

    @abstractmethod
    def parse(self, text: str) -> T:
        """The value; NotAllowed if this is none. Spaces around it do not count."""

    @abstractmethod
    def format(self, value: T) -> str:
        """As Kafka prints it."""


@dataclass(frozen=True, kw_only=True)
class WholeNumber(Kind[int]):
    """A number with a range, and at most one value outside of it with a meaning of its own."""

    config_type: ConfigType
    least: int
    most: int
    besides: int | None = None
    unit: Unit = Unit.NONE

    @property
    def allowed(self) -> str:
        number = f"a whole number of {self.unit}" if self.unit else "a whole number"
        besides = "" if self.besides is None else f"{self.besides} or "
        return f"{besides}{number} from {self.least} to {self.most}"

    def parse(self, text: str) -> int:
        text = text.strip()
        if _is_whole_number(text, _DIGITS_MAX):
            value = int(text)
            if self.least <= value <= self.most or value == self.besides:
                return value
        raise NotAllowed(self.allowed)

    def format(self, value: int) -> str:
        return str(value)


def short(least: int, most: int = 2**15 - 1) -> WholeNumber:
    """A number of 16 bits."""
    return WholeNumber(config_type=ConfigType.SHORT, least=least, most=most)


def integer(
    least: int = INT_MIN,
    most: int = INT_MAX,
    *,
    besides: int | None = None,
    unit: Unit = Unit.NONE,
) -> WholeNumber:
    """A number of 32 bits."""
    return WholeNumber(
        config_type=ConfigType.INT, least=least, most=most, besides=besides, unit=unit
    )


def long(
    least: int = LONG_MIN,
    most: int = LONG_MAX,
    *,
    besides: int | None = None,
    unit: Unit = Unit.NONE,
) -> WholeNumber:
    """A number of 64 bits."""
    return WholeNumber(
        config_type=ConfigType.LONG, least=least, most=most, besides=besides, unit=unit
    )


@dataclass(frozen=True)
class Double(Kind[float]):
    """A number with a range of finite ends."""

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
        # Java writes what is smaller or larger as 1.0E-5; 17 digits tell any two numbers apart.
        shortest = next(
            text for digits in range(17) if float(text := f"{value:.{digits}e}") == value
        )
        mantissa, exponent = shortest.split("e")
        point = "" if "." in mantissa else ".0"
        return f"{mantissa}{point}E{int(exponent)}"


@dataclass(frozen=True)
class Boolean(Kind[bool]):
    """Yes or no."""

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
    """Any text but none."""

    config_type = ConfigType.STRING
    allowed = "a text that is not empty"

    def parse(self, text: str) -> str:
        if value := text.strip():
            return value
        raise NotAllowed(self.allowed)

    def format(self, value: str) -> str:
        return value


@dataclass(frozen=True)
class OneOf(Kind[E]):
    """A member of an enumeration, written exactly so."""

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


@dataclass(frozen=True, kw_only=True)
class Listing(Kind[tuple[str, ...]]):
    """Texts with commas between them; of equal ones the first counts."""

    choices: tuple[str, ...] = ()
    may_be_empty: bool = True
    config_type = ConfigType.LIST

    @property
    def allowed(self) -> str:
        of = f" of {', '.join(self.choices)}" if self.choices else ""
        return f"a list{of} with commas between{'' if self.may_be_empty else ', not empty'}"

    def parse(self, text: str) -> tuple[str, ...]:
        if not text.strip() and self.may_be_empty:
            return ()
        values = tuple(dict.fromkeys(item.strip() for item in text.split(",")))
        if "" in values or (self.choices and not set(values) <= set(self.choices)):
            raise NotAllowed(self.allowed)
        return values

    def format(self, value: tuple[str, ...]) -> str:
        return ",".join(value)


class Secret:
    """A text that no log, traceback or answer shows by accident."""

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
    """A secret; printed it is `[hidden]`."""

    config_type = ConfigType.PASSWORD
    allowed = "a text that is not empty"
    is_secret = True

    def parse(self, text: str) -> Secret:
        if text:
            return Secret(text)
        raise NotAllowed(self.allowed)

    def format(self, value: Secret) -> str:
        return str(value)
