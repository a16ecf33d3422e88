"""Quotas by flavor: as the configuration of a pool has them, and as a change of a subpool asks for them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pools.domain.configuration.flavors import MAX_FLAVORS, MAX_NAME
from pools.domain.errors import Fault, Violation
from pools.domain.names import is_word
from pools.domain.quota.pool_balance import (
    MAX_GPUS,
    ParsedQuota,
    PoolBalance,
    parse_quota,
    pool_quotas_violation,
    subpool_quota_violation,
)
from pools.domain.quota.rules import QuotaRow, check_quota_rows
from pools.domain.quota.stored_quotas import FLAVOR_LIMITS, StoredFlavors
from pools.domain.quota.tree import LIMIT_KEYS
from pools.domain.structured_input.config_fields import TEXT, Schema, object_schema
from pools.domain.structured_input.faults import join_words
from pools.domain.structured_input.fields import FieldReader, shorten_value
from pools.domain.values.amounts import NO_LIMIT, UNLIMITED, decode_gpus

BORROW, NEXT, PREEMPT = "borrow", "next", "preempt"
SWITCHES: Final[Mapping[str, tuple[str, ...]]] = {
    "when_can_borrow": (BORROW, NEXT),
    "when_can_preempt": (NEXT, PREEMPT),
}
"""What is done with a flavor where work would have to borrow, or to preempt other work: take it, or try the next one.
The first word is the default."""

_COUNT: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": MAX_GPUS}
_AMOUNTS: Final = {
    "guarantee": _COUNT,
    "maximum": {"type": "integer", "minimum": NO_LIMIT, "maximum": MAX_GPUS},
    **{key: {**_COUNT, "type": ["integer", "null"]} for key in LIMIT_KEYS},
}
FLAVORS_SCHEMA: Final[Schema] = {
    "anyOf": [
        {"type": "object", "additionalProperties": object_schema(_AMOUNTS, ("guarantee",))},
        {"type": "array", "items": object_schema({"flavor": TEXT, **_AMOUNTS}, ("flavor", "guarantee"))},
    ]
}


def read_pool_flavors(resources: FieldReader, *, has_cohort: bool) -> list[dict[str, Any]]:
    """The quotas by flavor of a configuration, as a row keeps them, in the order of preference: the order of the keys
    of an object, or of the rows of a list. After a fault they are not usable."""
    found, rows = [], []
    for name, row in _flavor_rows(resources):
        stored, checked = _read_row(name, row)
        found.append(stored)
        rows.append(checked)
    if len(found) > MAX_FLAVORS:
        resources.add_fault("flavors", Fault.TOO_MANY, f"has {len(found)} entries; the most is {MAX_FLAVORS}.")
    resources.faults.extend(check_quota_rows(rows, has_parent=has_cohort, is_pool=True))
    return found


def _flavor_rows(resources: FieldReader) -> Iterator[tuple[str, FieldReader]]:
    if not isinstance(resources.body.get("flavors"), list):
        if nested := resources.nested("flavors"):
            for name in nested.body:
                row = nested.nested(name)
                if row is None and not nested.is_given(name):
                    nested.add_fault(shorten_value(name), Fault.MISSING, 'has no quota: give {"guarantee": GPUS}.')
                elif row is not None:
                    yield name, row
        return
    for row in resources.nested_list("flavors"):
        name = row.read_text("flavor")
        if not name:
            row.add_fault("flavor", Fault.MISSING, "is missing.")
        yield name, row


def _read_row(name: str, row: FieldReader) -> tuple[dict[str, Any], QuotaRow]:
    row.reject_unknown_keys(_AMOUNTS, ("flavor",))
    if name and (len(name) > MAX_NAME or not is_word(name)):
        row.faults.add(row.path, Fault.BAD_NAME, f"{row.path} is not the name of a flavor.")
    if not row.is_given("guarantee"):
        row.add_fault("guarantee", Fault.MISSING, "is missing: the GPUs of this flavor that the pool owns.")
    quota = row.whole_number("guarantee", 0, minimum=0, maximum=MAX_GPUS, below_code=Fault.NEGATIVE_QUOTA)
    maximum = row.whole_number("maximum", NO_LIMIT, minimum=NO_LIMIT, maximum=MAX_GPUS, below_code=Fault.NEGATIVE_QUOTA)
    if NO_LIMIT < maximum < quota:
        row.add_fault(
            "maximum", Fault.MAXIMUM_BELOW_GUARANTEE, "is below the quota: raise the maximum, or set no limit."
        )
    borrowing, lending = (
        row.whole_number(key, 0, minimum=-MAX_GPUS, maximum=MAX_GPUS) if row.is_given(key) else None
        for key in LIMIT_KEYS
    )
    limits = dict(zip(FLAVOR_LIMITS, (None if maximum == NO_LIMIT else maximum, borrowing, lending), strict=True))
    stored = {"flavor": name, "quota": quota, **{key: limits[key] for key in FLAVOR_LIMITS if limits[key] is not None}}
    return stored, QuotaRow(row.path, name, "gpu", quota, borrowing, lending)


def flavors_body(stored: StoredFlavors) -> dict[str, dict[str, int | None]]:
    """The quotas by flavor as answers show them, in the order of preference."""
    return {
        row["flavor"]: {"guarantee": row["quota"]} | {key: row[key] for key in FLAVOR_LIMITS if key in row}
        for row in stored
    }


def flavors_list(given: object) -> object:
    """`resources.flavors` of an object as a list, which keeps its order in a store that sorts keys."""
    if not isinstance(given, Mapping):
        return given
    return [{"flavor": name, **row} if isinstance(row, Mapping) else row for name, row in given.items()]


def without_old_sums(merged: dict[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration that a patch makes, without the sums of the flavors as they were before it."""
    resources, given = merged.get("resources"), patch.get("resources")
    if not isinstance(resources, Mapping) or not isinstance(given, Mapping) or not resources.get("flavors"):
        return merged
    gpu, typed = resources.get("gpu"), given.get("gpu")
    if not isinstance(gpu, Mapping):
        return merged
    kept = {key: gpu[key] for key in gpu if key == "weight" or (isinstance(typed, Mapping) and key in typed)}
    return {**merged, "resources": {**resources, "gpu": kept}}


def total_quota(stored: StoredFlavors) -> int:
    """The quota of a pool: the sum of its flavors."""
    return sum(row["quota"] for row in stored)


def total_maximum(stored: StoredFlavors) -> int:
    """The maximum of a pool: the sum of those of its flavors, no limit where one has none."""
    limits = [decode_gpus(row.get("maximum")) for row in stored]
    return NO_LIMIT if UNLIMITED in limits else int(sum(limits))


@dataclass(frozen=True, slots=True)
class FlavorsAsked:
    """A quota of a subpool as it was asked for: whole GPUs in all, by flavor where the pool has flavors, and warnings
    about numbers that were rounded down."""

    gpus: int
    by_flavor: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def stored(self) -> list[dict[str, Any]]:
        """The GPUs by flavor as a row keeps them."""
        return [{"flavor": flavor, "quota": gpus} for flavor, gpus in self.by_flavor.items() if gpus]

    @property
    def as_asked(self) -> dict[str, Any]:
        """The fields of a change that asks for the same, without percentages."""
        return {"quota": None, "quotas": dict(self.by_flavor)} if self.by_flavor else {"quota": self.gpus}


def read_subpool_quota(
    quota: object,
    quotas: object,
    balance: PoolBalance,
    *,
    present: Mapping[str, int] | None = None,
    path: str = "quota",
    paths: str = "quotas",
) -> FlavorsAsked | list[Violation]:
    """The quota of a subpool, asked for by `quota` (of a pool with one flavor that flavor) or by `quotas`, GPUs by
    flavor; what `quotas` leaves out stays as it is (`present`). Every fault is found."""
    names = balance.flavors
    if quota is None and quotas is None:
        needed = f" {_alone(balance.name, names, path, paths).message}" if len(names) > 1 else ""
        return [Violation(path, Fault.MISSING, f"{path} is missing.{needed}")]
    if quotas is None and len(names) != 1:
        if names:
            return [_alone(balance.name, names, path, paths)]
        parsed = parse_quota(quota, parent=balance.guarantee, path=path)
        return [parsed] if isinstance(parsed, Violation) else FlavorsAsked(parsed.gpus, {}, _warnings(parsed))
    if not names:
        message = f"Pool {balance.name} has no quotas by flavor: give {path}, in GPUs."
        return [Violation(paths, Fault.UNKNOWN_FLAVOR, message)]
    asked = {names[0]: quota} if quotas is None else quotas
    if not isinstance(asked, Mapping):
        return [Violation(paths, Fault.BAD_VALUE, f'{paths} must be an object such as {{"{names[0]}": 4}}.')]
    found = dict.fromkeys(names, 0) | {flavor: gpus for flavor, gpus in (present or {}).items() if flavor in names}
    faults: list[Violation] = []
    warnings: tuple[str, ...] = ()
    for flavor, amount in asked.items():
        at = path if quotas is None else f"{paths}.{shorten_value(str(flavor))}"
        if flavor not in names:
            faults.append(unknown_flavor(balance.name, names, at))
            continue
        parsed = parse_quota(amount, parent=balance.kinds[flavor].guarantee, path=at)
        if isinstance(parsed, Violation):
            faults.append(parsed)
        else:
            found[flavor] = parsed.gpus
            warnings += tuple(f"{flavor}: {warning}" for warning in _warnings(parsed))
    total = sum(found.values())
    if not faults and quotas is not None and quota is not None and quota != total:
        faults.append(
            Violation(
                path,
                Fault.SUM_DIFFERS,
                f"{path} is not the sum of {paths}, which is {total}. Leave it out, or give that number.",
                numbers=(("sum", total), *((("given", quota),) if isinstance(quota, int) else ())),
            )
        )
    return faults or FlavorsAsked(total, found, warnings)


def _warnings(parsed: ParsedQuota) -> tuple[str, ...]:
    return (parsed.warning,) if parsed.warning else ()


def _alone(pool: str, names: Sequence[str], path: str, paths: str) -> Violation:
    example = ", ".join(f'"{name}": GPUS' for name in names)
    return Violation(
        path,
        Fault.FLAVOR_NEEDED,
        f"Pool {pool} has quotas of {len(names)} flavors ({join_words(names)}): say how many GPUs of each, as {paths} "
        f"{{{example}}}.",
        numbers=(("flavors", list(names)),),
    )


def unknown_flavor(pool: str, names: Sequence[str], path: str) -> Violation:
    """The violation for a flavor that the pool does not have."""
    return Violation(
        path,
        Fault.UNKNOWN_FLAVOR,
        f"{path} is a flavor that pool {pool} has no quota of. It has {join_words(names)}.",
        numbers=(("flavors", list(names)),),
    )


def asked_violations(
    balance: PoolBalance, name: str, asked: FlavorsAsked, parts: Collection[str] = ()
) -> Iterator[Violation]:
    """The reasons why a subpool may not have what was asked for: one for each flavor, or that of the whole. `parts` are
    the flavors that count parts of shared GPUs."""
    if not balance.kinds:
        if found := subpool_quota_violation(balance, name=name, quota=asked.gpus):
            yield found
        return
    for flavor, gpus in asked.by_flavor.items():
        if found := subpool_quota_violation(balance.kinds[flavor], name=name, quota=gpus, flavor=flavor, parts=parts):
            yield found


def sums_violations(
    balance: PoolBalance, asked: Mapping[str, FlavorsAsked], parts: Collection[str] = ()
) -> Iterator[Violation]:
    """The reasons why these ACTIVE subpools (by short name) may not have what was asked for at the same time."""
    if not balance.kinds:
        if found := pool_quotas_violation(balance, {name: each.gpus for name, each in asked.items()}):
            yield found
        return
    for flavor, kind in balance.kinds.items():
        quotas = {name: each.by_flavor.get(flavor, 0) for name, each in asked.items()}
        if found := pool_quotas_violation(kind, quotas, flavor=flavor, parts=parts):
            yield found
