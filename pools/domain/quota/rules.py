"""The rules for the quotas of a cohort or pool, with all faults at once (design, Q4, D12)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypedDict, cast

from pools.domain.errors import Fault, Violation
from pools.domain.quota.tree import AMOUNT_KEYS
from pools.domain.values.amounts import GPU, Amount, Number, gpu_words, is_gpu

MAX_QUOTA_ROWS: Final = 16 * 64
"""16 resource groups of 64 resources, as Kueue counts them; a row is one (flavor, resource)."""

MIN_WEIGHT: Final = Fraction(1, 10**9)
"""A weight below this, and not 0, would make shares larger than anything."""


class AmountsBody(TypedDict):
    """The amounts of a node in JSON; null means no limit."""

    nominal: int
    borrowing_limit: int | None
    lending_limit: int | None


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """One row as written: None means no limit. `path` is the path of its fields, such as `quotas[2]`."""

    path: str
    flavor: str
    resource: str
    nominal: Amount
    borrowing_limit: Number | None = None
    lending_limit: Number | None = None

    @property
    def amounts(self) -> AmountsBody:
        """Its quota and limits by their keys."""
        return {
            "nominal": cast("int", self.nominal),
            "borrowing_limit": cast("int | None", self.borrowing_limit),
            "lending_limit": cast("int | None", self.lending_limit),
        }


def check_quota_rows(rows: Sequence[QuotaRow], *, has_parent: bool, is_pool: bool) -> list[Violation]:
    """All broken rules of one node. `is_pool`: a pool may not lend more than its own quota; a cohort may, since its
    lending limit bounds its whole subtree."""
    found = list(_duplicates(rows))
    if len(rows) > MAX_QUOTA_ROWS:
        found.append(Violation("quotas", Fault.TOO_MANY, f"A node has at most {MAX_QUOTA_ROWS} rows, not {len(rows)}."))
    for row in rows:
        found.extend(_check(row, has_parent=has_parent, is_pool=is_pool))
    return found


def _check(row: QuotaRow, *, has_parent: bool, is_pool: bool) -> Iterator[Violation]:
    key = f"{row.flavor}/{row.resource}"
    of = "" if key == GPU else f" of {gpu_words(row.flavor)[1] if is_gpu(key) else key}"
    for name in AMOUNT_KEYS:
        amount = getattr(row, name)
        if amount is None:
            continue
        called = "quota" if name == "nominal" else name.replace("_", " ")
        if amount < 0:
            yield Violation(f"{row.path}.{name}", Fault.NEGATIVE, f"The {called}{of} must be at least 0.")
        if name != "nominal" and not has_parent:
            above = "cohort" if is_pool else "parent"
            message = f"A {called}{of} needs a {above}: without one it can neither borrow nor lend."
            yield Violation(f"{row.path}.{name}", Fault.LIMIT_WITHOUT_PARENT, message)
    if is_pool and row.lending_limit is not None and row.lending_limit > row.nominal >= 0:
        message = f"The lending limit{of} ({row.lending_limit}) is above the quota ({row.nominal})."
        yield Violation(f"{row.path}.lending_limit", Fault.LENDING_ABOVE_NOMINAL, message)


def _duplicates(rows: Sequence[QuotaRow]) -> Iterator[Violation]:
    seen: set[tuple[str, str]] = set()
    for row in rows:
        if (row.flavor, row.resource) in seen:
            yield Violation(row.path, Fault.DUPLICATE, f"{row.flavor}/{row.resource} is given twice.")
        seen.add((row.flavor, row.resource))


def check_weight(weight: Number) -> list[Violation]:
    """A weight is 0 (never preferred while borrowing) or at least a billionth."""
    if weight == 0 or weight >= MIN_WEIGHT:
        return []
    return [Violation("weight", Fault.BAD_WEIGHT, "A weight is 0, or at least 0.000000001.")]


def find_closed_cycle(parents: Mapping[str, str | None], name: str, parent: str | None) -> list[str]:
    """The cycle, beginning with `name`, that would be closed if `name` got this parent; empty if none would be.

    `parents` has the present parents, which may already contain other cycles.
    """
    path = [name]
    while parent is not None:
        if parent == name:
            return path
        if parent in path:
            return []
        path.append(parent)
        parent = parents.get(parent)
    return []
