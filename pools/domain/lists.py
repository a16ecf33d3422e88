"""The queries of the lists of this app: filters and pages."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pools.domain.approvals import ApprovalState
from pools.domain.audit_actions import AuditAction
from pools.domain.changes.command import BOOLEAN, TEXT, TEXTS, TIME, choice, whole_number
from pools.domain.people.notices import NoticeStatus
from pools.domain.people.saved_views import FilteredList
from pools.domain.questions import MAX_ROWS, ORDER, Page, asked, page_limit
from pools.domain.values.query_values import MAX_INTEGER

OBJECT_KINDS = ("pool", "workflow", "user", "token", "backend", "config")


def _with_archived() -> Any:
    return asked(BOOLEAN, "Show archived objects, too.", default=False)


@dataclass(frozen=True, slots=True)
class AuditQuery(Page):
    """What is asked of the audit log; both ends of the time are included."""

    limit: int = page_limit(50)
    object: str = asked(TEXT, "Only this object, as pool/team--a or workflow/hello-1.")
    actor: str = asked(TEXT, "Only what this user did.", label="User", hint="exact name")
    kind: str = asked(choice(OBJECT_KINDS), "Only objects of this kind.", label="Kind")
    action: str = asked(
        TEXT,
        f"Only this action, as {AuditAction.SUBPOOL_UPDATED}, or updated.",
        label="Action",
        hint=f"{AuditAction.SUBPOOL_UPDATED}, or updated",
    )
    pool: str = asked(
        TEXT, "Only this pool with its subpools.", label="Pool", hint="exact name, with its subpools", metavar="POOL"
    )
    since: datetime | None = asked(TIME, "From this time on.", label="From")
    until: datetime | None = asked(TIME, "Up to this time.", label="Until")


@dataclass(frozen=True, slots=True)
class UserQuery:
    """What is asked of the list of users."""

    count: int = asked(
        whole_number(1, MAX_ROWS),
        "The largest number of users; 100 if not given.",
        default=100,
        option="--limit --count",
        short="-c",
    )
    start_index: int = asked(
        whole_number(1, MAX_INTEGER),
        "The number of the first user to list; counting begins at 1.",
        default=1,
    )
    id_prefix: str = asked(TEXT, "Only names that begin with this text.", short="-p")
    roles: list[str] = asked(TEXTS, "Only users with one of these roles.", short="-r", metavar="ROLE...")


@dataclass(frozen=True, slots=True)
class NamedPools:
    """Which pools are asked for, by their names."""

    pools: list[str] = asked(
        TEXTS,
        "Only these pools and subpools; unknown names are left out.",
        default=(),
        option="--pool",
        short="-p",
        metavar="POOL...",
    )
    all_pools: bool = asked(
        BOOLEAN, "Has no effect together with `pools`; kept for OSMO's clients.", default=True, option=""
    )

    @property
    def names(self) -> set[str] | None:
        """The names; None for all pools that the caller may see."""
        return set(self.pools) or None


@dataclass(frozen=True, slots=True)
class PoolListQuery(NamedPools):
    """What is asked of the pools as users see them."""

    include_archived: bool = _with_archived()


@dataclass(frozen=True, slots=True)
class SubpoolQuery:
    """What is asked of the subpools of a pool."""

    include_archived: bool = _with_archived()
    start_room: bool = asked(
        BOOLEAN,
        "With `can_start_now` of the pool, the shared leaf and each subpool: GPUs that quotas and limits let start "
        "now, LOW work included; -1 is unlimited.",
        default=False,
        option="",
    )


@dataclass(frozen=True, slots=True)
class PoolQuery:
    """What is asked of the list of pool configurations; archived pools are shown only on request."""

    backend: str = asked(TEXT, "Only pools on this backend.", label="Cluster", hint="exact name")
    include_archived: bool = _with_archived()
    verbose: bool = asked(BOOLEAN, "With the values that follow from the configuration.", default=False)


@dataclass(frozen=True, slots=True)
class RevisionQuery(Page):
    """What is asked of the history of the configuration."""

    config_types: list[str] = asked(
        dataclasses.replace(TEXTS, parse=str.upper), "Only these types; POOL has a history here.", option=""
    )
    name: str = asked(TEXT, "Only changes of this pool.", short="-n")
    revision: int | None = asked(whole_number(1, MAX_INTEGER), "Only this revision.", short="-r")
    tags: list[str] = asked(TEXTS, "Only revisions with one of these tags.", metavar="TAG...")
    created_after: datetime | None = asked(TIME, "From this time on.")
    created_before: datetime | None = asked(TIME, "Until this time.")
    at_timestamp: datetime | None = asked(TIME, "Only the configuration in force at this time.")
    omit_data: bool = asked(BOOLEAN, "Without the configuration itself.", default=False, option="")
    order: bool = asked(ORDER, "Newest first (DESC) if not given.", default=True, option="")


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionDiffQuery:
    """The two revisions that are compared."""

    config_type: str = asked(TEXT, "POOL.", default="POOL")
    first_revision: int = asked(whole_number(1, MAX_INTEGER), "The older one.", default=dataclasses.MISSING)
    second_revision: int | None = asked(whole_number(1, MAX_INTEGER), "The newer one; the one in force if not given.")


@dataclass(frozen=True, slots=True)
class SavedViewQuery:
    """Which views are listed."""

    list: FilteredList | None = asked(choice(tuple(FilteredList)), "Only views of this list.")


@dataclass(frozen=True, slots=True)
class GpuAllocationQuery(Page):
    """What is asked of the workers of a namespace."""

    include_released: bool = asked(BOOLEAN, "Show what was released, too.", default=False, option="--released")


@dataclass(frozen=True, slots=True)
class GpuSampleQuery(Page):
    """What is asked of the use of a namespace."""

    limit: int = page_limit(1000)
    since: datetime | None = asked(TIME, "Begin here; a day ago if not given.")


@dataclass(frozen=True, slots=True)
class NoticeQuery(Page):
    """Which notices are asked for."""

    limit: int = page_limit(20, option="--count")
    status: NoticeStatus | None = asked(choice(list(NoticeStatus)), "waiting, delivered, or dead (no longer tried).")
    target: int | None = asked(whole_number(0, MAX_INTEGER), "Only those to this target.")


@dataclass(frozen=True, slots=True)
class ApprovalQuery(Page):
    """Which requests for an approval are asked for."""

    limit: int = page_limit(20, option="--count")
    state: ApprovalState | None = asked(choice(list(ApprovalState)), "Only requests in this state.")
    pool: str = asked(TEXT, "Only requests for this pool and its subpools.", short="-p", metavar="POOL")
