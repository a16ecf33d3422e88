"""The queries of the lists of this app: filters and pages."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pools.domain.approvals import ApprovalState
from pools.domain.audit_actions import AuditAction
from pools.domain.people.notices import NoticeStatus
from pools.domain.people.saved_views import FilteredList
from pools.domain.questions import MAX_ROWS, ORDER, Page, page_limit, parameter
from pools.domain.structured_input.declared_values import BOOLEAN, TEXT, TEXTS, TIME, choice, whole_number
from pools.domain.values.query_values import MAX_INTEGER

OBJECT_KINDS = ("pool", "workflow", "user", "token", "backend", "config")


def _object_text(text: str) -> str | None:
    kind, _, name = text.partition("/")
    return text if kind and name else None


_OBJECT = dataclasses.replace(
    TEXT, parse=_object_text, rule="an object as KIND/NAME, such as pool/team--a or workflow/hello-1"
)


def _with_archived() -> Any:
    return parameter(BOOLEAN, "Show archived objects, too.", default=False)


@dataclass(frozen=True, slots=True)
class AuditQuery(Page):
    """The query of the audit log; both ends of the time are included."""

    limit: int = page_limit(50)
    object: str = parameter(_OBJECT, "Only this object, as pool/team--a or workflow/hello-1.")
    actor: str = parameter(TEXT, "Only what this user did.", label="User", hint="exact name")
    kind: str = parameter(choice(OBJECT_KINDS), "Only objects of this kind.", label="Kind")
    action: str = parameter(
        TEXT,
        f"Only this action, as {AuditAction.SUBPOOL_UPDATED}, or updated.",
        label="Action",
        hint=f"{AuditAction.SUBPOOL_UPDATED}, or updated",
    )
    pool: str = parameter(
        TEXT, "Only this pool with its subpools.", label="Pool", hint="exact name, with its subpools", metavar="POOL"
    )
    since: datetime | None = parameter(TIME, "From this time on.", label="From")
    until: datetime | None = parameter(TIME, "Up to this time.", label="Until")


@dataclass(frozen=True, slots=True)
class UserQuery:
    """The query of the list of users."""

    count: int = parameter(
        whole_number(1, MAX_ROWS),
        "The largest number of users; 100 if not given.",
        default=100,
        option="--limit --count",
        short="-c",
    )
    start_index: int = parameter(
        whole_number(1, MAX_INTEGER),
        "The number of the first user to list; counting begins at 1.",
        default=1,
    )
    id_prefix: str = parameter(TEXT, "Only names that begin with this text.", short="-p")
    roles: list[str] = parameter(TEXTS, "Only users with one of these roles.", short="-r", metavar="ROLE...")
    details: bool = parameter(BOOLEAN, "Include the roles of each user.", default=False, option="")


@dataclass(frozen=True, slots=True)
class NamedPools:
    """The pools of the query, by their names."""

    pools: list[str] = parameter(
        TEXTS,
        "Only these pools and subpools; unknown names are left out.",
        default=(),
        option="--pool",
        short="-p",
        metavar="POOL...",
    )
    all_pools: bool = parameter(
        BOOLEAN, "Has no effect together with `pools`; kept for OSMO's clients.", default=True, option=""
    )

    @property
    def names(self) -> set[str] | None:
        """The names; None for all pools that the caller may see."""
        return set(self.pools) or None


@dataclass(frozen=True, slots=True)
class PoolListQuery(NamedPools):
    """The query of the pools as users see them."""

    include_archived: bool = _with_archived()
    with_subpools: bool = parameter(
        BOOLEAN, "With the subpools of each pool that `pools` names.", default=False, option=""
    )


@dataclass(frozen=True, slots=True)
class SubpoolQuery:
    """The query of the subpools of a pool."""

    include_archived: bool = _with_archived()
    start_room: bool = parameter(
        BOOLEAN,
        "With `can_start_now` of the pool, the shared leaf and each subpool, GPUs that HIGH and NORMAL work may start "
        "now; with `low_can_start_now`, the same of LOW work (-1 is unlimited); and with the parts of its `bar`.",
        default=False,
        option="",
    )


@dataclass(frozen=True, slots=True)
class PoolQuery:
    """The query of the list of pool configurations; archived pools are shown only on request."""

    backend: str = parameter(TEXT, "Only pools on this backend.", label="Cluster", hint="exact name")
    include_archived: bool = _with_archived()
    verbose: bool = parameter(BOOLEAN, "With the values that follow from the configuration.", default=False)


@dataclass(frozen=True, slots=True)
class RevisionQuery(Page):
    """The query of the history of the configuration."""

    config_types: list[str] = parameter(
        dataclasses.replace(TEXTS, parse=str.upper), "Only these types; POOL has a history here.", option=""
    )
    name: str = parameter(TEXT, "Only changes of this pool.", short="-n")
    revision: int | None = parameter(whole_number(1, MAX_INTEGER), "Only this revision.", short="-r")
    tags: list[str] = parameter(TEXTS, "Only revisions with one of these tags.", metavar="TAG...")
    created_after: datetime | None = parameter(TIME, "From this time on.")
    created_before: datetime | None = parameter(TIME, "Until this time.")
    at_timestamp: datetime | None = parameter(TIME, "Only the configuration in force at this time.")
    omit_data: bool = parameter(BOOLEAN, "Without the configuration itself.", default=False, option="")
    order: bool = parameter(ORDER, "Newest first (DESC) if not given.", default=True, option="")


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionDiffQuery:
    """The two revisions that are compared."""

    config_type: str = parameter(TEXT, "POOL.", default="POOL")
    first_revision: int = parameter(whole_number(1, MAX_INTEGER), "The older one.", default=dataclasses.MISSING)
    second_revision: int | None = parameter(
        whole_number(1, MAX_INTEGER), "The newer one; the one in force if not given."
    )


@dataclass(frozen=True, slots=True)
class SavedViewQuery:
    """Which views are listed."""

    list: FilteredList | None = parameter(choice(tuple(FilteredList)), "Only views of this list.")


@dataclass(frozen=True, slots=True)
class GpuAllocationQuery(Page):
    """The query of the workers of a namespace."""

    include_released: bool = parameter(BOOLEAN, "Show what was released, too.", default=False, option="--released")


@dataclass(frozen=True, slots=True)
class GpuSampleQuery(Page):
    """The query of the use of a namespace."""

    limit: int = page_limit(1000)
    since: datetime | None = parameter(TIME, "Begin here; a day ago if not given.")


@dataclass(frozen=True, slots=True)
class NoticeQuery(Page):
    """The notices of the query."""

    limit: int = page_limit(20, option="--count")
    status: NoticeStatus | None = parameter(
        choice(list(NoticeStatus)), "waiting, delivered, or dead (no longer tried)."
    )
    target: int | None = parameter(
        whole_number(0, MAX_INTEGER), "Only those to this destination.", option="--destination"
    )


@dataclass(frozen=True, slots=True)
class InboxQuery(Page):
    """The news of the query."""

    limit: int = page_limit(20, option="--count")
    unread: bool = parameter(BOOLEAN, "Only news that you have not read.", default=False)


@dataclass(frozen=True, slots=True)
class ApprovalQuery(Page):
    """The requests for an approval of the query."""

    limit: int = page_limit(20, option="--count")
    state: ApprovalState | None = parameter(choice(list(ApprovalState)), "Only requests in this state.")
    pool: str = parameter(TEXT, "Only requests for this pool and its subpools.", short="-p", metavar="POOL")
