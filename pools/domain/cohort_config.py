"""The configuration of a cohort: the JSON of a PUT, and the form that the ledger stores (api.md, "Quota tree and
cohorts"; :mod:`pools.domain.quota.rules` has the rules).

Amounts are whole numbers in the unit of the resource; null is no limit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from pools.domain.amounts import DEFAULT_FLAVOR, Number, as_json, decode_gpus, simplify
from pools.domain.errors import Violation
from pools.domain.quota.rules import QuotaRow, check_quota_rows, check_weight
from pools.domain.quota.tree import AMOUNT_KEYS, LIMIT_KEYS, NodeQuota
from pools.domain.structured_input.fields import FieldReader

MAX_AMOUNT: Final = 2**53 - 1
"""As far as every JSON reader counts exactly; eight petabytes, in bytes."""

MAX_WEIGHT: Final = 10**9
WEIGHT_DECIMALS: Final = 9
LONGEST_WORD: Final = 253
EDITABLE_KEYS: Final = ("parent", "quotas", "weight")
ANSWER_KEYS: Final = frozenset(
    {
        "name", "explicit", "version", "warnings", "active", "condition", "inactive_since", "cohorts", "pools",
        "created_at", "updated_at",
    }
)  # fmt: skip
"""What answers add; it may come back with a PUT and says nothing there."""

StoredQuotas = Mapping[str, Mapping[str, int | None]]
"""The quotas as a row keeps them: amounts by their keys, by `flavor/resource`."""


@dataclass(frozen=True, slots=True)
class CohortSettings:
    """The configuration of a cohort. `parent` None: the cohort is a root."""

    parent: str | None = None
    quotas: tuple[QuotaRow, ...] = ()
    weight: Number = 1


def parse_cohort(body: Mapping[str, Any]) -> tuple[CohortSettings, list[Violation]]:
    """The configuration in the JSON, and every fault in it. After a fault the configuration is not usable. The caller
    checks whether the parent closes a cycle."""
    faults: list[Violation] = []
    cohort = FieldReader(body, "", faults)
    cohort.reject_unknown_keys(EDITABLE_KEYS, ANSWER_KEYS)
    parent = cohort.read_text("parent") or None
    rows = [_row(row) for row in cohort.nested_list("quotas")]
    weight = _weight(cohort)
    faults += check_quota_rows(rows, has_parent=parent is not None, is_pool=False)
    faults += check_weight(weight)
    return CohortSettings(parent, tuple(rows), weight), faults


def _row(row: FieldReader) -> QuotaRow:
    row.reject_unknown_keys(("flavor", "resource", *AMOUNT_KEYS))
    flavor, resource = row.read_text("flavor", DEFAULT_FLAVOR), row.read_text("resource")
    if not resource:
        row.add_fault("resource", "missing", "is missing: say what is counted, as gpu.")
    for key, word in (("flavor", flavor), ("resource", resource)):
        if word and (len(word) > LONGEST_WORD or not _is_word(word) or (key == "flavor" and "/" in word)):
            allowed = "letters, digits, '-', '_' and '.'" + ("" if key == "flavor" else ", and '/'")
            row.add_fault(key, "bad_name", f"must be made of {allowed}.")
    nominal, *limits = (_amount(row, key) for key in AMOUNT_KEYS)
    return QuotaRow(row.path, flavor, resource, nominal or 0, *limits)


def _is_word(text: str) -> bool:
    return text.isascii() and text[0].isalnum() and text[-1].isalnum() and all(c.isalnum() or c in "-_./" for c in text)


def _amount(row: FieldReader, key: str) -> int | None:
    """A whole number. Numbers below 0 pass here, because the quota rules have a better message for them."""
    return row.whole_number(key, 0, minimum=-MAX_AMOUNT, maximum=MAX_AMOUNT) if row.is_given(key) else None


def _weight(cohort: FieldReader) -> Number:
    value = cohort.body.get("weight")
    if value is None:
        return 1
    is_endless = isinstance(value, float) and not math.isfinite(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or is_endless:
        cohort.add_fault("weight", "bad_value", "must be a number.")
        return 1
    if value > MAX_WEIGHT:
        cohort.add_fault("weight", "too_large", f"must be at most {MAX_WEIGHT}.")
        return 1
    if value < 0:
        return -1  # the quota rules have a message for it
    weight = simplify(Fraction(repr(value)))
    if weight >= Fraction(1, 10**WEIGHT_DECIMALS) and (weight * 10**WEIGHT_DECIMALS).denominator != 1:
        cohort.add_fault("weight", "bad_weight", f"must have at most {WEIGHT_DECIMALS} decimals.")
        return 1
    return weight


def editable_body(settings: CohortSettings) -> dict[str, Any]:
    """The JSON that a PUT takes, with every key."""
    return {
        "parent": settings.parent,
        "quotas": [{"flavor": row.flavor, "resource": row.resource, **row.amounts} for row in settings.quotas],
        "weight": as_json(settings.weight),
    }


def stored_from_rows(rows: Sequence[QuotaRow]) -> dict[str, dict[str, int | None]]:
    """The rows as the ledger stores them, by `flavor/resource`."""
    return {
        f"{row.flavor}/{row.resource}": row.amounts for row in sorted(rows, key=lambda row: (row.flavor, row.resource))
    }


def rows_from_stored(stored: StoredQuotas) -> tuple[QuotaRow, ...]:
    """The rows as they are written, by flavor and resource."""
    rows = []
    for place, (key, amounts) in enumerate(sorted(stored.items())):
        flavor, _, resource = key.partition("/")
        nominal, limits = amounts.get("nominal") or 0, [amounts.get(limit) for limit in LIMIT_KEYS]
        rows.append(QuotaRow(f"quotas[{place}]", flavor, resource, nominal, *limits))
    return tuple(rows)


def without_limits(stored: StoredQuotas) -> dict[str, dict[str, int | None]]:
    """The same quotas for a cohort without a parent, where borrowing and lending limits mean nothing."""
    return {key: {**amounts, **dict.fromkeys(LIMIT_KEYS)} for key, amounts in stored.items()}


def quotas_from_stored(stored: StoredQuotas) -> dict[str, NodeQuota]:
    """The quotas in the form that the quota tree uses."""
    return {
        key: NodeQuota(amounts.get("nominal") or 0, *(decode_gpus(amounts.get(limit)) for limit in LIMIT_KEYS))
        for key, amounts in stored.items()
    }
