"""Reading the fields of a scenario: each reader gives a value or notes what is wrong and where, and goes on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any

from pools.domain.amounts import GPU, MAX_DIGITS, UNLIMITED, Amount, Number, resource_key, whole_if_whole
from pools.domain.errors import Violation
from scheduling.scenario.reader import Map, Unreadable


class Fault:
    """The codes of a scenario that cannot be read (design section 6)."""

    UNKNOWN_KEY = "unknown_key"
    UNKNOWN_NAME = "unknown_name"
    DUPLICATE = "duplicate_name"
    CYCLE = "cycle"
    BAD_VALUE = "bad_value"


class Faults:
    """All that is wrong with one scenario."""

    def __init__(self) -> None:
        self.found: list[Violation] = []

    def note(self, path: str, code: str, message: str) -> None:
        """One more; the reading goes on."""
        self.found.append(Violation(path, code, message))

    def bad(self, path: str, expected: str, value: Any) -> None:
        """A value that is not what stands there."""
        self.note(path, Fault.BAD_VALUE, f"{expected}, not {shown(value)}.")


def shown(value: Any) -> str:
    """A value for a sentence, kept short."""
    if isinstance(value, Unreadable):
        return f"'{value.text}', which {value.why}"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a map"
    if isinstance(value, list):
        return "a list"
    text = str(value)
    return f"'{text}'" if len(text) <= 60 else f"'{text[:57]}…'"


LARGEST = 10**MAX_DIGITS


def joined(path: str, key: str) -> str:
    """The path of a key below a path."""
    return f"{path}.{key}" if path else key


def number_of(value: Any) -> Number | None:
    """The exact number, or None; floats come from bodies that somebody else parsed."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float):
        return whole_if_whole(Fraction(repr(value))) if abs(value) < LARGEST else None
    if isinstance(value, int | Fraction) and -LARGEST < value < LARGEST:
        return value
    return None


class Record:
    """The fields of one map, with its path. A field that is null is the same as one that is left out."""

    def __init__(self, value: Any, path: str, faults: Faults, what: str) -> None:
        self.path, self.faults = path, faults
        self._value: Mapping[str, Any] = {}
        if isinstance(value, dict):
            self._value = value
            for key in value.repeated if isinstance(value, Map) else ():
                faults.note(joined(path, key), Fault.DUPLICATE, f"The key '{key}' stands twice in {what}.")
        else:
            faults.bad(path, f"Here stands {what}, which is a map", value)
        self.readable = isinstance(value, dict)

    def only(self, *known: str) -> None:
        """Every other key is a fault."""
        for key in self._value:
            if key not in known:
                self.faults.note(
                    self.at(str(key)), Fault.UNKNOWN_KEY, f"'{key}' is not known here; known are {', '.join(known)}."
                )

    def at(self, key: str) -> str:
        """The path of a field."""
        return joined(self.path, key)

    def get(self, key: str) -> Any:
        """The value as written."""
        return self._value.get(key)

    def has(self, key: str) -> bool:
        """Whether the field is given, be it as null."""
        return key in self._value

    def __iter__(self) -> Iterator[str]:
        """The keys in the order they are written."""
        return iter(self._value)

    def text(self, key: str, *, needed: bool = False) -> str | None:
        """A name."""
        value = self.get(key)
        if value is None:
            if needed:
                self.faults.note(self.at(key), Fault.BAD_VALUE, f"'{key}' is missing.")
            return None
        if not isinstance(value, str) or not value:
            self.faults.bad(self.at(key), f"'{key}' is a name (quote it if it looks like a number)", value)
            return None
        return value

    def number(self, key: str, default: Number, *, least: int | None = None) -> Number:
        """Any exact number, or one that is at least `least`."""
        value = self.get(key)
        if value is None:
            return default
        number = number_of(value)
        if number is None or (least is not None and number < least):
            self.faults.bad(
                self.at(key), f"'{key}' is a number" + (f" from {least}" if least is not None else ""), value
            )
            return default
        return number

    def whole(self, key: str, default: int | None, *, least: int, most: int) -> int | None:
        """A whole number between two bounds."""
        value = self.get(key)
        if value is None:
            return default
        number = number_of(value)
        if not isinstance(number, int) or not least <= number <= most:
            self.faults.bad(self.at(key), f"'{key}' is a whole number from {least} to {most}", value)
            return default
        return number

    def one_of(self, key: str, choices: Iterable[str], default: str) -> str:
        """One of a few words."""
        value = self.get(key)
        if value is None:
            return default
        words = list(choices)
        if value not in words:
            self.faults.bad(self.at(key), f"'{key}' is one of {', '.join(words)}", value)
            return default
        return str(value)

    def flag(self, key: str) -> bool | None:
        """true, false, or nothing."""
        value = self.get(key)
        if value is not None and not isinstance(value, bool):
            self.faults.bad(self.at(key), f"'{key}' is true or false", value)
            return None
        return value

    def amounts(self, key: str, *, unlimited: bool = False) -> dict[str, Amount] | None:
        """Amounts, or None if the field is not given. With `unlimited`, −1 means just that."""
        value = self.get(key)
        return None if value is None else amounts_of(value, self.at(key), self.faults, unlimited=unlimited)

    def items(self, key: str, what: str) -> Iterator[Record]:
        """The maps of a list."""
        for position, value in enumerate(self.listed(key)):
            yield Record(value, f"{self.at(key)}[{position}]", self.faults, what)

    def listed(self, key: str) -> list[Any]:
        """A list as written; empty if the field is not given."""
        value = self.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            self.faults.bad(self.at(key), f"'{key}' is a list", value)
            return []
        return value


def amounts_of(value: Any, path: str, faults: Faults, *, unlimited: bool) -> dict[str, Amount]:
    """A number (GPUs) or a map `{flavor/resource: number}`; never negative, but for −1 where that means unlimited."""
    if not isinstance(value, dict):
        amount = _amount(value, path, faults, unlimited=unlimited)
        return {} if amount is None else {GPU: amount}
    found: dict[str, Amount] = {}
    record = Record(value, path, faults, "amounts")
    for key in record:
        name = resource_key(str(key))
        amount = (
            None if record.get(key) is None else _amount(record.get(key), record.at(key), faults, unlimited=unlimited)
        )
        if name in found:
            faults.note(record.at(key), Fault.DUPLICATE, f"'{name}' is given twice.")
        if name.startswith("/") or name.endswith("/"):
            faults.note(record.at(key), Fault.BAD_VALUE, f"'{key}' is no flavor/resource.")
        if amount is not None:
            found[name] = amount
    return found


def _amount(value: Any, path: str, faults: Faults, *, unlimited: bool) -> Amount | None:
    number = number_of(value)
    if number is not None and number >= 0:
        return number
    if number == -1 and unlimited:
        return UNLIMITED
    allowed = "a number from 0, or -1 for unlimited" if unlimited else "a number from 0"
    faults.bad(path, f"An amount is {allowed}", value)
    return None


def read_resources(entry: Record) -> dict[str, Number]:
    """`gpus: n`, or `resources: {flavor/resource: n}`; not both."""
    gpus, resources = entry.get("gpus"), entry.amounts("resources")
    if gpus is not None and resources is not None:
        entry.faults.note(entry.at("gpus"), Fault.BAD_VALUE, "Give 'gpus' or 'resources', not both.")
    if gpus is not None:
        return {GPU: entry.number("gpus", 0, least=0)}
    # −1 is not read as unlimited here, so every amount is a number.
    return {key: amount for key, amount in (resources or {}).items() if not isinstance(amount, float)}
