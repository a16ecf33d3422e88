"""The configuration of a cohort: its keys, the JSON of a PUT, and the form that the ledger stores (design, A4;
:mod:`pools.domain.quota.rules` has the rules).

From the table of the keys come the reader, the schema of files and of the API document, the form, and the sentences of
the client. Amounts are whole numbers in the unit of the resource; null means no limit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, TypedDict, cast

from pools.domain.errors import Fault, Violation
from pools.domain.names import is_word
from pools.domain.numbers import TREE_NUMBERS, WEIGHT
from pools.domain.quota.rules import AmountsBody, QuotaRow, check_quota_rows, check_weight
from pools.domain.quota.tree import AMOUNT_KEYS, LIMIT_KEYS
from pools.domain.structured_input.config_fields import TEXT, ConfigField, Schema, object_schema, properties_of
from pools.domain.structured_input.fields import FieldReader
from pools.domain.values.amounts import DEFAULT_FLAVOR, Number, as_json, simplify
from pools.domain.values.scalars import typed_number

QUOTA_SECTION, LENDING = SECTIONS = ("Quota", "Lending")
"""The parts of the form, in its order."""
MAX_AMOUNT: Final = 2**53 - 1
"""As far as every JSON reader counts exactly; eight petabytes, in bytes."""

MAX_WEIGHT: Final = 10**9
WEIGHT_DECIMALS: Final = 9
LONGEST_WORD: Final = 253
_ROW_TEXT: Final = re.compile(r"(?:([^/=\s]+)/)?([^=\s]+)\s*=\s*([^:\s]*)(?::([^:\s]*))?(?::([^:\s]*))?")
ANSWER_KEYS: Final = frozenset(
    {
        "name", "explicit", "version", "warnings", "active", "condition", "inactive_since", "cohorts", "pools",
        "created_at", "updated_at",
    }
)  # fmt: skip
"""What answers add; it may come back with a PUT and says nothing there."""


@dataclass(frozen=True, slots=True)
class CohortSettings:
    """The configuration of a cohort. `parent` None: the cohort is a root."""

    parent: str | None = None
    quotas: tuple[QuotaRow, ...] = ()
    weight: Number = 1


class QuotaRowBody(AmountsBody):
    """The quota and the limits of one resource."""

    flavor: str
    resource: str


class CohortConfigBody(TypedDict):
    """The configuration of a cohort, with every key."""

    parent: str | None
    quotas: list[QuotaRowBody]
    weight: float


def _read_amount(row: FieldReader, key: str) -> int:
    """A whole number. Numbers below 0 pass here, because the quota rules have a better message for them."""
    value = row.body.get(key)
    is_below = isinstance(value, int) and not isinstance(value, bool) and -MAX_AMOUNT <= value < 0
    return row.whole_number(key, 0, minimum=-MAX_AMOUNT if is_below else 0, maximum=MAX_AMOUNT)


def _read_weight(cohort: FieldReader, key: str) -> Number:
    value = cohort.body[key]
    is_endless = isinstance(value, float) and not math.isfinite(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or is_endless:
        cohort.add_fault(key, Fault.BAD_VALUE, "must be a number.")
        return 1
    if value > MAX_WEIGHT:
        cohort.add_fault(key, Fault.TOO_LARGE, f"must be at most {MAX_WEIGHT}.")
        return 1
    if value < 0:
        return -1  # the quota rules have a message for it
    weight = simplify(Fraction(repr(value)))
    if weight >= Fraction(1, 10**WEIGHT_DECIMALS) and (weight * 10**WEIGHT_DECIMALS).denominator != 1:
        cohort.add_fault(key, Fault.BAD_WEIGHT, f"must have at most {WEIGHT_DECIMALS} decimals.")
        return 1
    return weight


def _read(fields: Sequence[ConfigField], reader: FieldReader, ignored: Collection[str] = ()) -> dict[str, Any]:
    reader.reject_unknown_keys([each.key for each in fields], ignored)
    return {
        each.key: each.read(reader, each.key) if each.read and reader.is_given(each.key) else each.default
        for each in fields
    }


def _read_row(row: FieldReader) -> QuotaRow:
    values = _read(QUOTA_FIELDS, row)
    if not values["resource"]:
        row.add_fault("resource", Fault.MISSING, "is missing: say what is counted, as gpu.")
    for key in ("flavor", "resource"):
        word = values[key]
        plain = word if key == "flavor" else word.replace("/", ".")
        if word and (len(word) > LONGEST_WORD or not is_word(plain)):
            allowed = "letters, digits, '-', '_' and '.'" + ("" if key == "flavor" else ", and '/'")
            row.add_fault(key, Fault.BAD_NAME, f"must be made of {allowed}.")
    return QuotaRow(row.path, **values)


_AMOUNT: Final[Schema] = {"type": ["integer", "null"], "minimum": 0, "maximum": MAX_AMOUNT}
_AMOUNT_HELP: Final = {
    "nominal": "The cohort's own quota, in addition to the quotas of the pools and cohorts below.",
    "borrowing_limit": "How much the subtree may use beyond its effective quota.",
    "lending_limit": "How much of the effective quota others may use.",
}
QUOTA_FIELDS: Final = (
    ConfigField("flavor", TEXT, "Flavor", "The kind of the resource.", DEFAULT_FLAVOR, FieldReader.read_text),
    ConfigField("resource", TEXT, "Resource", "What is counted, such as gpu.", "", FieldReader.read_text),
    *(
        ConfigField(
            key, _AMOUNT, f"{TREE_NUMBERS[key].label} in GPUs", help_text, None if key in LIMIT_KEYS else 0,
            _read_amount, input=key, section=LENDING if key in LIMIT_KEYS else QUOTA_SECTION, unit="GPUs",
            empty="no limit" if key in LIMIT_KEYS else "0",
        )
        for key, help_text in _AMOUNT_HELP.items()
    ),
)  # fmt: skip
"""The keys of one row of `quotas`."""
COHORT_FIELDS: Final = (
    ConfigField(
        "parent", {"type": ["string", "null"]}, "Parent",
        "The cohort above this one. A new name creates a cohort.",
        read=lambda cohort, key: cohort.read_text(key) or None, input="parent", looks="text", section=LENDING,
        empty="none (a root)",
    ),
    ConfigField(
        "quotas", {"type": "array", "items": object_schema(properties_of(QUOTA_FIELDS), ("resource",))}, "Quotas",
        "The cohort's own quotas and limits, a row for each resource.", (),
        lambda cohort, key: tuple(map(_read_row, cohort.nested_list(key))),
    ),
    ConfigField(
        "weight", {"type": "number", "minimum": 0, "maximum": MAX_WEIGHT}, WEIGHT.label,
        "The weight in fair sharing of borrowed GPUs; usually 1.", 1, _read_weight, input="weight", looks="quota",
        section=LENDING,
    ),
)  # fmt: skip
FIELDS_OF_FORM: Final = {
    each.input: each for each in (*COHORT_FIELDS[:1], *QUOTA_FIELDS, *COHORT_FIELDS[1:]) if each.input
}
"""The fields that the form of a cohort has, by the names of its inputs; instead of `quotas` the amounts of GPUs."""


def parse_cohort(body: Mapping[str, Any]) -> tuple[CohortSettings, list[Violation]]:
    """The configuration in the JSON, and every fault in it. After a fault the configuration is not usable. The caller
    checks whether the parent closes a cycle."""
    faults: list[Violation] = []
    settings = CohortSettings(**_read(COHORT_FIELDS, FieldReader(body, "", faults), ANSWER_KEYS))
    faults += check_quota_rows(settings.quotas, has_parent=settings.parent is not None, is_pool=False)
    faults += check_weight(settings.weight)
    return settings, faults


def editable_body(settings: CohortSettings) -> CohortConfigBody:
    """The JSON that a PUT takes, with every key."""
    return {
        "parent": settings.parent,
        "quotas": [{"flavor": row.flavor, "resource": row.resource, **row.amounts} for row in settings.quotas],
        "weight": cast("float", as_json(settings.weight)),
    }


def row_from_text(text: str) -> dict[str, Any] | None:
    """The JSON of a row from a text such as `gpu=6:8` or `h100/gpu=0::5`; None for other text. A text that is not a
    number stays as it is: the reader of the JSON says what is wrong."""
    match = _ROW_TEXT.fullmatch(text.strip())
    if match is None:
        return None
    flavor, resource, *amounts = match.groups()
    row = {"resource": resource, **dict(zip(AMOUNT_KEYS, map(optional_number, amounts), strict=True))}
    return row | ({"flavor": flavor} if flavor else {})


def optional_number(text: str | None) -> int | float | str | None:
    """The number of a text; None for an empty one."""
    return typed_number(text) if text and text.strip() else None
