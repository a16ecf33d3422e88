"""The fields of a scenario: the shared field reader with exact numbers, amounts, and the codes of scenarios."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any, ClassVar

from pools.domain.errors import Fault
from pools.domain.structured_input import Dialect, Faults, FieldReader, ValueReader
from pools.domain.values.amounts import GPU, MAX_DIGITS, UNLIMITED, Amount, Number, resource_key, simplify
from pools.domain.values.scalars import UnreadableScalar
from scheduling.structured_yaml.value_reader import DocumentMap

NUMBER_LIMIT = 10**MAX_DIGITS


def exact_number(value: Any) -> Number | None:
    """The exact number, or None; floats come from bodies that another program has parsed."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float):
        return simplify(Fraction(repr(value))) if abs(value) < NUMBER_LIMIT else None
    if isinstance(value, int | Fraction) and -NUMBER_LIMIT < value < NUMBER_LIMIT:
        return simplify(value)
    return None


class _ScenarioDialect(Dialect):
    """Values of a scenario file: numbers are exact, and a scalar that no reader can use is an `UnreadableScalar`."""

    map_name = "a map"
    too_large = Fault.BAD_VALUE

    def whole_number(self, value: Any) -> int | None:
        number = exact_number(value) if isinstance(value, int) else None
        return number if isinstance(number, int) else None

    def describe(self, value: Any) -> str:
        return f"a text that {value.reason}" if isinstance(value, UnreadableScalar) else super().describe(value)


class ScenarioValue(ValueReader):
    """One value of a scenario."""

    __slots__ = ()

    dialect: ClassVar[Dialect] = _ScenarioDialect()

    def number(self, default: Number, *, minimum: int | None = None) -> Number:
        """An exact number."""
        number = exact_number(self.value)
        if number is None or (minimum is not None and number < minimum):
            self.refuse("a number" if minimum is None else f"a number from {minimum}")
            return default
        return number

    def amount(self, *, unlimited: bool) -> Amount | None:
        """An amount from 0. With `unlimited`, −1 means just that."""
        number = exact_number(self.value)
        if number is not None and number >= 0:
            return number
        if number == -1 and unlimited:
            return UNLIMITED
        self.refuse("a number from 0, or -1 for unlimited" if unlimited else "a number from 0")
        return None

    def amounts(self, *, unlimited: bool) -> dict[str, Amount]:
        """A number of GPUs, or a map `{flavor/resource: number}`."""
        if not self.is_map:
            amount = self.amount(unlimited=unlimited)
            return {} if amount is None else {GPU: amount}
        found: dict[str, Amount] = {}
        record = RecordReader(self.value, self.path, self.faults, "amounts")
        for key in record:
            name = resource_key(str(key))
            amount = record.field(key).amount(unlimited=unlimited) if record.is_given(key) else None
            if name in found:
                self.faults.add(record.path_of(key), Fault.DUPLICATE_NAME, f"'{name}' is given twice.")
            if name.startswith("/") or name.endswith("/"):
                message = f"'{key}' is not a valid flavor/resource."
                self.faults.add(record.path_of(key), Fault.BAD_VALUE, message)
            if amount is not None:
                found[name] = amount
        return found


class RecordReader(FieldReader):
    """The fields of one map of a scenario, with its path."""

    values: ClassVar[type[ValueReader]] = ScenarioValue

    def __init__(self, value: Any, path: str, faults: Faults, subject: str) -> None:
        self.is_map = isinstance(value, dict)
        super().__init__(value if self.is_map else {}, path, faults)
        if not self.is_map:
            ScenarioValue(value, path, None, faults).refuse(f"{subject}, which is a map")
        for key in value.repeated_keys if isinstance(value, DocumentMap) else ():
            self.faults.add(self.path_of(key), Fault.DUPLICATE_NAME, f"The key '{key}' is given twice in {subject}.")

    def field(self, key: str) -> ScenarioValue:
        return ScenarioValue(self.body.get(key), self.path_of(key), None, self.faults)

    def raw_value(self, key: str) -> Any:
        """The value as written."""
        return self.body.get(key)

    def has_key(self, key: str) -> bool:
        """Whether the field is given, be it as null."""
        return key in self.body

    def __iter__(self) -> Iterator[str]:
        """The keys in the order they are written."""
        return iter(self.body)

    def name(self, key: str, *, required: bool = False) -> str | None:
        """A text that is not empty."""
        value = self.body.get(key)
        if isinstance(value, str) and value:
            return value
        if value is not None:
            self.field(key).refuse("a name (quote it if it looks like a number)")
        elif required:
            self.add_fault(key, Fault.BAD_VALUE, "is missing.")
        return None

    def number(self, key: str, default: Number, *, minimum: int | None = None) -> Number:
        """Any exact number, or one that is at least `minimum`."""
        return self.field(key).number(default, minimum=minimum) if self.is_given(key) else default

    def choice(self, key: str, choices: Iterable[str], default: str) -> str:
        """One of a few words."""
        value, words = self.body.get(key), list(choices)
        if value is None:
            return default
        if value not in words:
            self.field(key).refuse(f"one of {', '.join(words)}")
            return default
        return str(value)

    def amounts(self, key: str, *, unlimited: bool = False) -> dict[str, Amount] | None:
        """Amounts, or None if the field is not given. With `unlimited`, −1 means just that."""
        return self.field(key).amounts(unlimited=unlimited) if self.is_given(key) else None

    def records(self, key: str, subject: str) -> Iterator[RecordReader]:
        """The maps of a list; an item that is none is read as an empty map."""
        for item in self.list_items(key):
            yield RecordReader(item.value, item.path, self.faults, subject)

    def list_items(self, key: str) -> list[ValueReader]:
        """The items of a list; none if the field is not given."""
        return list(self.field(key).list_items("")) if self.is_given(key) else []


def read_resources(entry: RecordReader) -> dict[str, Number]:
    """`gpus: n`, or `resources: {flavor/resource: n}`; not both."""
    gpus, resources = entry.raw_value("gpus"), entry.amounts("resources")
    if gpus is not None and resources is not None:
        entry.faults.add(entry.path_of("gpus"), Fault.BAD_VALUE, "Give 'gpus' or 'resources', not both.")
    if gpus is not None:
        return {GPU: entry.number("gpus", 0, minimum=0)}
    # −1 is not read as unlimited here, so every amount is a number.
    return {key: amount for key, amount in (resources or {}).items() if not isinstance(amount, float)}


def read_choices(entry: RecordReader) -> list[dict[str, Number]]:
    """`any_of: [{flavor/resource: n}, …]`: the amounts of each entry; at least one."""
    found = [
        {key: amount for key, amount in amounts.items() if not isinstance(amount, float)}
        for item in entry.field("any_of").list_items("amounts")
        for amounts in (item.amounts(unlimited=False),)
    ]
    if not found:
        entry.faults.add(entry.path_of("any_of"), Fault.BAD_VALUE, "'any_of' needs at least one entry.")
    return found or [{}]
