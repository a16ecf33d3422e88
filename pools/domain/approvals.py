"""Changes of quotas that need the approval of a second person: `approval_above` of a pool (docs/approvals.md).

Each change is measured by itself: the amounts of the pool or of one subpool before and after it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self, cast

from pools.domain.configuration.pool_config import PoolSettings
from pools.domain.configuration.pool_fields import APPROVAL_ABOVE
from pools.domain.configuration.pool_flavors import FlavorsAsked
from pools.domain.errors import Conflict, Fault, Violation, joined_messages
from pools.domain.quota.stored_quotas import flavor_quotas
from pools.domain.values.amounts import (
    UNLIMITED,
    Gpus,
    decode_gpus,
    encode_gpus,
    words_of_any,
)
from pools.domain.values.counting import counted

LASTING_QUOTA = "lasting quota"


COHORT_AMOUNTS = ("borrowing limit", "lending limit")
POOL_AMOUNTS = ("guarantee", "maximum", *COHORT_AMOUNTS)


class ApprovalState(StrEnum):
    """The states of a request. `superseded`: its object changed before a decision. Only `waiting` can change."""

    WAITING = "waiting"
    APPROVED = "approved"
    REJECTED = "rejected"
    WITHDRAWN = "withdrawn"
    EXPIRED = "expired"
    SUPERSEDED = "superseded"


@dataclass(frozen=True, slots=True)
class AmountChange:
    """One amount of a change, in GPUs. `moved`: between two places, as ("cohort org", "cohort lab"); there the former
    amount goes, and the new one comes."""

    name: str
    before: Gpus
    after: Gpus
    moved: tuple[str, str] | None = None

    @property
    def size(self) -> Gpus:
        """The GPUs by which the amount changes; between a number and unlimited this is unlimited. Of an amount that
        moves it is the larger of both."""
        if self.moved is None and self.before == self.after:
            return 0
        if UNLIMITED in (self.before, self.after):
            return UNLIMITED
        return abs(self.after - self.before) if self.moved is None else max(self.before, self.after)

    def as_dict(self) -> dict[str, Any]:
        """The amount in answers; -1 is unlimited."""
        return {
            "amount": self.name,
            "before": encode_gpus(self.before),
            "after": encode_gpus(self.after),
            "change": encode_gpus(self.size),
            **({} if self.moved is None else {"before_in": self.moved[0], "after_in": self.moved[1]}),
        }


def pool_amounts(settings: PoolSettings | None) -> dict[str, Gpus]:
    """The amounts of a pool that count: guarantee, maximum, and what it may borrow and lend in its cohort. A pool that
    does not exist, or is archived (None), has none."""
    if settings is None:
        return dict.fromkeys(POOL_AMOUNTS, 0)
    in_cohort, lending = settings.cohort is not None, settings.lending_limit
    return {
        "guarantee": settings.effective_guarantee,
        "maximum": decode_gpus(settings.maximum),
        "borrowing limit": decode_gpus(settings.borrowing_limit) if in_cohort else 0,
        "lending limit": (settings.effective_guarantee if lending is None else lending) if in_cohort else 0,
        **_flavor_amounts(settings),
    }


def _flavor_amounts(settings: PoolSettings) -> dict[str, Gpus]:
    """The same by flavor: a pool that gives GPUs of one for GPUs of another has the same sums."""
    in_cohort = settings.cohort is not None
    found: dict[str, Gpus] = {}
    for each in flavor_quotas(settings.flavors):
        lending = min(each.quota, each.limits.lending_limit)
        amounts = (each.quota, each.maximum, *((each.limits.borrowing_limit, lending) if in_cohort else (0, 0)))
        found |= {
            f"{name} of {each.flavor}": cast("Gpus", gpus) for name, gpus in zip(POOL_AMOUNTS, amounts, strict=True)
        }
    return found


def subpool_amounts(quota: FlavorsAsked, after: FlavorsAsked | None = None) -> dict[str, Gpus]:
    """The amounts of a subpool that count, also by flavor. `after` is the lasting quota while a temporary one is in
    force: a temporary quota that becomes lasting is a change, too."""
    lasting = quota if after is None else after
    return {
        "quota": quota.gpus,
        LASTING_QUOTA: lasting.gpus,
        **{f"quota of {flavor}": gpus for flavor, gpus in quota.by_flavor.items()},
        **{f"{LASTING_QUOTA} of {flavor}": gpus for flavor, gpus in lasting.by_flavor.items()},
    }


def pool_changes_above(before: PoolSettings | None, after: PoolSettings | None, limit: int) -> tuple[AmountChange, ...]:
    """The amounts of a pool that change by more than `limit` GPUs. A pool that moves to another cluster takes all of
    them along, and one that moves to another cohort its limits there: other work loses them, and other work gets them.
    """
    earlier, later = pool_amounts(before), pool_amounts(after)
    moved: dict[str, tuple[str, str]] = {}
    if before is not None and after is not None:
        if before.cohort and after.cohort and before.cohort != after.cohort:
            moved = dict.fromkeys(COHORT_AMOUNTS, (f"cohort {before.cohort}", f"cohort {after.cohort}"))
        if before.backend != after.backend:
            clusters = (f"cluster {before.backend}", f"cluster {after.backend}")
            moved |= dict.fromkeys(("guarantee", "maximum"), clusters)
    changes = [
        AmountChange(name, earlier.get(name, 0), later.get(name, 0), moved.get(name.partition(" of ")[0]))
        for name in earlier | later
    ]
    return tuple(change for change in changes if change.size > limit)


def moved_limits_above(settings: PoolSettings, moved: tuple[str, str], limit: int) -> tuple[AmountChange, ...]:
    """The limits of a pool that are more than `limit` GPUs and move with a cohort above it, between two places as of
    :class:`AmountChange`: the same loss and gain as when the pool itself moves to another cohort."""
    amounts = pool_amounts(settings)
    names = [name for name in amounts if name.partition(" of ")[0] in COHORT_AMOUNTS]
    changes = [AmountChange(name, amounts[name], amounts[name], moved) for name in names]
    return tuple(change for change in changes if change.size > limit)


def changes_above(before: Mapping[str, Gpus], after: Mapping[str, Gpus], limit: int) -> tuple[AmountChange, ...]:
    """The amounts that change by more than `limit` GPUs."""
    changes = [AmountChange(name, before.get(name, 0), after.get(name, 0)) for name in {**before, **after}]
    above = [change for change in changes if change.size > limit]
    named = {(change.name, change.before, change.after) for change in above}
    # Without a temporary quota the lasting one is the quota, which is named once.
    return tuple(
        each
        for each in above
        if not each.name.startswith(LASTING_QUOTA)
        or (each.name.removeprefix("lasting "), each.before, each.after) not in named
    )


def loosens_limit(before: int | None, after: int | None) -> bool:
    """Whether `approval_above` is raised or removed, which itself always needs an approval."""
    return before is not None and (after is None or after > before)


class ApprovalNeeded(Conflict):
    """The change needs the approval of a second person. `subject` is the canonical name of the pool or subpool,
    `version` its version now (None: a new subpool), `pool_id` its top-level pool; `resolved` are arguments of the
    service as they were understood, such as a percentage in GPUs."""

    subject: str
    version: int | None
    pool_id: int
    limit: int
    resolved: Mapping[str, Any]

    @classmethod
    def for_change(
        cls,
        *,
        subject: str,
        version: int | None,
        pool_id: int,
        limit: int,
        changes: tuple[AmountChange, ...],
        loosened_to: int | None = None,
        is_loosened: bool = False,
        path: str = "",
        resolved: Mapping[str, Any] | None = None,
        flavors: Collection[str] = (),
        parts: Collection[str] = (),
    ) -> Self:
        """The refusal, with one violation for each amount. `flavors` are those of the pool, `parts` those that count
        parts of shared GPUs."""
        violations = [_amount_violation(subject, each, limit, path, _unit(each, flavors, parts)) for each in changes]
        if is_loosened:
            unit = words_of_any(flavors, parts)
            violations.append(_loosened_violation(subject, counted(limit, *unit), limit, loosened_to, path))
        refusal = cls(f"{joined_messages(violations)} {REMEDY}", violations)
        refusal.subject, refusal.version, refusal.pool_id, refusal.limit = subject, version, pool_id, limit
        refusal.resolved = resolved or {}
        return refusal


REMEDY = (
    "To ask for the approval, repeat the request with ?request_approval=true (osmo: --request-approval; pages: the "
    "button Ask for approval). Nothing was changed."
)


def _amount_violation(subject: str, change: AmountChange, limit: int, path: str, unit: tuple[str, str]) -> Violation:
    from_place, to_place = ("", "") if change.moved is None else (f" in {place}" for place in change.moved)
    message = (
        f"The {change.name} of {subject} would change from {_text(change.before, unit)}{from_place} to "
        f"{_text(change.after, unit)}{to_place}. Changes of more than {counted(limit, *unit)} need the approval of "
        'a second person here (limit "Approval above").'
    )
    numbers = tuple({**change.as_dict(), "limit": limit}.items())
    return Violation(path, Fault.APPROVAL_NEEDED, message, numbers=numbers)


def _loosened_violation(subject: str, text: str, limit: int, after: int | None, path: str) -> Violation:
    how = "be removed" if after is None else f"rise to {after}"
    message = (
        f'The limit above which changes of {subject} need an approval ("Approval above") is {text} '
        f"and would {how}, which needs the approval of a second person."
    )
    numbers = (("amount", APPROVAL_ABOVE), ("before", limit), ("after", after), ("limit", limit))
    return Violation(
        f"{path}.{APPROVAL_ABOVE}" if path else APPROVAL_ABOVE, Fault.APPROVAL_NEEDED, message, numbers=numbers
    )


def _unit(change: AmountChange, flavors: Collection[str], parts: Collection[str]) -> tuple[str, str]:
    """What one and several of an amount are: that of a flavor, else the sum of all flavors."""
    which = change.name.partition(" of ")[2]
    return words_of_any([which] if which else flavors, parts)


def _text(gpus: Gpus, unit: tuple[str, str]) -> str:
    return "unlimited" if gpus == UNLIMITED else counted(gpus, *unit)
