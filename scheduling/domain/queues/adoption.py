"""The change of the ledger that would make another client's value of a queue field the desired one ("adopt").

Only numbers that somebody configures can be adopted: the quota of a subpool, and the guarantee, maximum and weight of a
pool. All other fields follow from these, or are the same on every queue.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypedDict

from pools.domain.names import SEPARATOR, canonical_name
from pools.domain.values.amounts import NO_LIMIT

_POOL_FIELDS: Final = {
    "spec.resources.gpu.quota": "guarantee",
    "spec.resources.gpu.limit": "maximum",
    "spec.resources.gpu.overQuotaWeight": "weight",
}
_SUBPOOL_FIELDS: Final = {"spec.resources.gpu.quota": "quota"}


class AdoptionAnswer(TypedDict):
    """A number of a pool or subpool, with its canonical name."""

    pool: str
    field: str
    value: int


@dataclass(frozen=True, slots=True)
class Adoption:
    """A number of a pool, or of a subpool where `subpool` is its short name. `field` is `guarantee`, `maximum`,
    `weight` or `quota`; -1 is unlimited."""

    pool: str
    subpool: str | None
    field: str
    value: int

    def as_dict(self) -> AdoptionAnswer:
        """The number in answers, with the canonical name."""
        name = self.pool if self.subpool is None else canonical_name(self.pool, self.subpool)
        return {"pool": name, "field": self.field, "value": self.value}


def find_adoption(namespace: str, queue: str, field: str, theirs: object) -> Adoption | None:
    """The number of the ledger behind a field of a queue object, with the value of the other client; None where no
    single number decides the field, or where the value is none that the ledger can have."""
    prefix = f"osmo-pool-{namespace}-"
    if not queue.startswith(prefix) or isinstance(theirs, bool) or not isinstance(theirs, int | float):
        return None
    pool, separator, leaf = queue.removeprefix(prefix).partition(SEPARATOR)
    subpool = leaf if separator else None
    name = (_POOL_FIELDS if subpool is None else _SUBPOOL_FIELDS).get(field)
    least = NO_LIMIT if name in {"guarantee", "maximum"} else 0
    if name is None or leaf.startswith("-") or not float(theirs).is_integer() or theirs < least:
        return None
    return Adoption(pool, subpool, name, int(theirs))
