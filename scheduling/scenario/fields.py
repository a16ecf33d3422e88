"""Reading the fields of a scenario: each reader gives a value or notes what is wrong and where, and goes on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any

from pools.domain.amounts import GPU, MAX_DIGITS, UNLIMITED, Amount, Number, resource_key, simplify
from pools.domain.errors import Violation
from scheduling.scenario.document_reader import DocumentMap, UnreadableScalar


class ScenarioFaultCode:
    """The codes of a scenario that cannot be read (design section 6)."""

    UNKNOWN_KEY = "unknown_key"
    UNKNOWN_NAME = "unknown_name"
    DUPLICATE = "duplicate_name"
    CYCLE = "cycle"
    BAD_VALUE = "bad_value"


class ScenarioFaults:
    """All that is wrong with one scenario."""

    def __init__(self) -> None:
        self.violations: list[Violation] = []

    def add(self, path: str, code: str, message: str) -> None:
        """One more; the reading goes on."""
        self.violations.append(Violation(path, code, message))

    def add_bad_value(self, path: str, expected: str, value: Any) -> None:
        """A value that is not what stands there."""
        self.add(path, ScenarioFaultCode.BAD_VALUE, f"{expected}, not {value_text(value)}.")


def value_text(value: Any) -> str:
    """A value for a sentence, kept short."""
    if isinstance(value, UnreadableScalar):
        return f"'{value.text}', which {value.reason}"
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


NUMBER_LIMIT = 10**MAX_DIGITS


def join_path(path: str, key: str) -> str:
    """The path of a key below a path."""
    return f"{path}.{key}" if path else key


def exact_number(value: Any) -> Number | None:
    """The exact number, or None; floats come from bodies that somebody else parsed."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float):
        return simplify(Fraction(repr(value))) if abs(value) < NUMBER_LIMIT else None
    if isinstance(value, int | Fraction) and -NUMBER_LIMIT < value < NUMBER_LIMIT:
        return value
    return None


class RecordReader:
    """The fields of one map, with its path. A field that is null is the same as one that is left out."""

    def __init__(self, value: Any, path: str, faults: ScenarioFaults, what: str) -> None:
        self.path, self.faults = path, faults
        self._value: Mapping[str, Any] = {}
        if isinstance(value, dict):
            self._value = value
            for key in value.repeated_keys if isinstance(value, DocumentMap) else ():
                faults.add(
                    join_path(path, key), ScenarioFaultCode.DUPLICATE, f"The key '{key}' stands twice in {what}."
                )
        else:
            faults.add_bad_value(path, f"Here stands {what}, which is a map", value)
        self.is_map = isinstance(value, dict)

    def reject_unknown_keys(self, *known: str) -> None:
        """Every other key is a fault."""
        for key in self._value:
            if key not in known:
                self.faults.add(
                    self.path_of(str(key)),
                    ScenarioFaultCode.UNKNOWN_KEY,
                    f"'{key}' is not known here; known are {', '.join(known)}.",
                )

    def path_of(self, key: str) -> str:
        """The path of a field."""
        return join_path(self.path, key)

    def raw_value(self, key: str) -> Any:
        """The value as written."""
        return self._value.get(key)

    def has_key(self, key: str) -> bool:
        """Whether the field is given, be it as null."""
        return key in self._value

    def __iter__(self) -> Iterator[str]:
        """The keys in the order they are written."""
        return iter(self._value)

    def text(self, key: str, *, required: bool = False) -> str | None:
        """A name."""
        value = self.raw_value(key)
        if value is None:
            if required:
                self.faults.add(self.path_of(key), ScenarioFaultCode.BAD_VALUE, f"'{key}' is missing.")
            return None
        if not isinstance(value, str) or not value:
            self.faults.add_bad_value(
                self.path_of(key), f"'{key}' is a name (quote it if it looks like a number)", value
            )
            return None
        return value

    def number(self, key: str, default: Number, *, minimum: int | None = None) -> Number:
        """Any exact number, or one that is at least `minimum`."""
        value = self.raw_value(key)
        if value is None:
            return default
        number = exact_number(value)
        if number is None or (minimum is not None and number < minimum):
            self.faults.add_bad_value(
                self.path_of(key), f"'{key}' is a number" + (f" from {minimum}" if minimum is not None else ""), value
            )
            return default
        return number

    def whole_number(self, key: str, default: int | None, *, minimum: int, maximum: int) -> int | None:
        """A whole number between two bounds."""
        value = self.raw_value(key)
        if value is None:
            return default
        number = exact_number(value)
        if not isinstance(number, int) or not minimum <= number <= maximum:
            self.faults.add_bad_value(
                self.path_of(key), f"'{key}' is a whole number from {minimum} to {maximum}", value
            )
            return default
        return number

    def choice(self, key: str, choices: Iterable[str], default: str) -> str:
        """One of a few words."""
        value = self.raw_value(key)
        if value is None:
            return default
        words = list(choices)
        if value not in words:
            self.faults.add_bad_value(self.path_of(key), f"'{key}' is one of {', '.join(words)}", value)
            return default
        return str(value)

    def boolean(self, key: str) -> bool | None:
        """true, false, or nothing."""
        value = self.raw_value(key)
        if value is not None and not isinstance(value, bool):
            self.faults.add_bad_value(self.path_of(key), f"'{key}' is true or false", value)
            return None
        return value

    def amounts(self, key: str, *, unlimited: bool = False) -> dict[str, Amount] | None:
        """Amounts, or None if the field is not given. With `unlimited`, −1 means just that."""
        value = self.raw_value(key)
        return None if value is None else parse_amounts(value, self.path_of(key), self.faults, unlimited=unlimited)

    def nested_list(self, key: str, what: str) -> Iterator[RecordReader]:
        """The maps of a list."""
        for position, value in enumerate(self.raw_list(key)):
            yield RecordReader(value, f"{self.path_of(key)}[{position}]", self.faults, what)

    def raw_list(self, key: str) -> list[Any]:
        """A list as written; empty if the field is not given."""
        value = self.raw_value(key)
        if value is None:
            return []
        if not isinstance(value, list):
            self.faults.add_bad_value(self.path_of(key), f"'{key}' is a list", value)
            return []
        return value


def parse_amounts(value: Any, path: str, faults: ScenarioFaults, *, unlimited: bool) -> dict[str, Amount]:
    """A number (GPUs) or a map `{flavor/resource: number}`; never negative, but for −1 where that means unlimited."""
    if not isinstance(value, dict):
        amount = _amount(value, path, faults, unlimited=unlimited)
        return {} if amount is None else {GPU: amount}
    found: dict[str, Amount] = {}
    record = RecordReader(value, path, faults, "amounts")
    for key in record:
        name = resource_key(str(key))
        amount = (
            None
            if record.raw_value(key) is None
            else _amount(record.raw_value(key), record.path_of(key), faults, unlimited=unlimited)
        )
        if name in found:
            faults.add(record.path_of(key), ScenarioFaultCode.DUPLICATE, f"'{name}' is given twice.")
        if name.startswith("/") or name.endswith("/"):
            faults.add(record.path_of(key), ScenarioFaultCode.BAD_VALUE, f"'{key}' is no flavor/resource.")
        if amount is not None:
            found[name] = amount
    return found


def _amount(value: Any, path: str, faults: ScenarioFaults, *, unlimited: bool) -> Amount | None:
    number = exact_number(value)
    if number is not None and number >= 0:
        return number
    if number == -1 and unlimited:
        return UNLIMITED
    allowed = "a number from 0, or -1 for unlimited" if unlimited else "a number from 0"
    faults.add_bad_value(path, f"An amount is {allowed}", value)
    return None


def read_resources(entry: RecordReader) -> dict[str, Number]:
    """`gpus: n`, or `resources: {flavor/resource: n}`; not both."""
    gpus, resources = entry.raw_value("gpus"), entry.amounts("resources")
    if gpus is not None and resources is not None:
        entry.faults.add(entry.path_of("gpus"), ScenarioFaultCode.BAD_VALUE, "Give 'gpus' or 'resources', not both.")
    if gpus is not None:
        return {GPU: entry.number("gpus", 0, minimum=0)}
    # −1 is not read as unlimited here, so every amount is a number.
    return {key: amount for key, amount in (resources or {}).items() if not isinstance(amount, float)}
