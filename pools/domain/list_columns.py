"""The columns of the lists of this app (:mod:`pools.domain.columns`)."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from pools.domain.columns import Column, list_columns, number_column
from pools.domain.numbers import (
    CAN_START_NOW,
    GPU_QUOTA_NUMBERS,
    POOL_NUMBERS,
    QUOTA,
    TOTAL_IN_USE,
    WEIGHT,
)
from pools.domain.values.amounts import NO_LIMIT, as_json

FLAVOR_COLUMN = Column("flavor", meaning="The kind of its GPUs, where the cluster names some")

POOL_COLUMNS = list_columns(
    Column("pool", "Pool", lambda line: line[0].pool.name, "name", "name"),
    Column("subpool", "", lambda line: line[1].label if line[1].kind == "subpool" else None),
    Column("kind", "", lambda line: line[1].kind),
    Column("backend", "", lambda line: line[0].pool.backend and line[0].pool.backend.name),
    Column("state", "State", lambda line: line[1].state or line[0].status),
    Column("bar", "GPUs"),
    number_column(QUOTA, lambda line: as_json(line[1].quota), "guarantee", "quota"),
    number_column(TOTAL_IN_USE, lambda line: line[1].total_usage, sort="total", is_extra=True),
    number_column(POOL_NUMBERS["used"], lambda line: line[1].used, sort="used", is_extra=True),
    number_column(POOL_NUMBERS["available"], lambda line: as_json(line[1].available), sort="free", is_extra=True),
    number_column(CAN_START_NOW, lambda line: as_json(line[1].can_start_now)),
    Column("low_can_start_now", "", lambda line: as_json(line[1].low_can_start_now)),
    number_column(POOL_NUMBERS["live_workflows"], lambda line: line[1].live_workflows, is_extra=True),
    Column("quota_until", "", lambda line: line[1].until),
    Column("quota_after", "", lambda line: line[1].quota_after),
)
"""A row is a tree of :mod:`pools.selectors.quotas.pool_tree` with its head or a leaf. A file says `unlimited`."""

FLAVOR_QUOTA_COLUMNS = list_columns(
    Column("part", "Pool or subpool"),
    FLAVOR_COLUMN,
    Column("bar", "GPUs"),
    *(number_column(number) for number in (QUOTA, TOTAL_IN_USE, POOL_NUMBERS["used"], POOL_NUMBERS["available"])),
)
"""Of a pool, its remainder and its subpools in each flavor."""

IDLE_COLUMNS = list_columns("pool", Column("idle", is_right=True), number_column(QUOTA))
"""Of the pools with the most idle quota."""

BACKEND_COLUMNS = list_columns(
    "cluster", "state",
    Column("nodes", is_right=True),
    Column("gpus", "GPUs", is_right=True),
    Column("quota", meaning="The quotas of its pools together", is_right=True),
    number_column(TOTAL_IN_USE),
    Column("use", meaning="All its GPUs, and what holds them"),
    Column("hours", "24 hours", meaning="GPUs in use, on average of each hour", is_extra=True),
    Column("kind", is_extra=True),
    Column("namespace", is_extra=True),
    Column("work_ends", is_extra=True),
    "pools",
)  # fmt: skip

MACHINE_COLUMNS = list_columns(
    "node", "platform", FLAVOR_COLUMN,
    Column("pool", "Pool/Platform"),
    "type",
    Column("gpu", "GPUs", is_right=True, published="GPUs used", parts="used total"),
    Column("cpu", "CPUs", is_right=True, published="CPUs used", parts="used total"),
    Column("memory", is_right=True, published="Memory used", parts="used_gi total_gi"),
    Column("storage", is_right=True, published="Storage used", parts="used_gi total_gi"),
)  # fmt: skip
"""Of the nodes of clusters."""

PROMISE_COLUMNS = list_columns(
    "pool", FLAVOR_COLUMN,
    Column("quota", is_right=True),
    Column("held", "Can have now", meaning="The part of the quota that the cluster can give now", is_right=True),
    Column("missing", is_right=True),
)  # fmt: skip
"""Of the quotas of a cluster's pools while it has too few GPUs."""

UNASSIGNED_COLUMNS = list_columns(
    Column("queue", "Queue or namespace"),
    Column("workloads", is_right=True),
    Column("gpus", "GPUs", is_right=True),
    Column("note", "Why"),
)
"""Of the queues of an observed cluster that no pool takes."""

ARCHIVED_SUBPOOL_COLUMNS = list_columns("subpool", Column("last_quota", is_right=True), "archived")

HOLDER_COLUMNS = list_columns("workflow", "owner", "priority", Column("holds", is_right=True), "how_long", "submitted")
"""Of the workflows that hold GPUs of a pool that drains."""

COHORT_COLUMNS = list_columns("cohort", "parent", number_column(WEIGHT), "quotas", "cohorts", "pools")

NODE_COLUMNS = list_columns("node", "kind")
"""Of the nodes of the quota tree, in addition to the numbers of `TREE_NUMBERS`."""

USED_AND_CAP = {"bytes": "used_bytes cap_bytes", "TFLOPS": "used cap", "": "used cap"}
GPU_QUOTA_COLUMNS = list_columns(
    "namespace",
    "status",
    *(
        Column(
            key, number.label, meaning=number.meaning, is_right=True, is_extra=key.startswith("limits."),
            parts=USED_AND_CAP[number.unit],
        )
        for key, number in GPU_QUOTA_NUMBERS.items()
    ),
)  # fmt: skip

GPU_AMOUNT_COLUMNS = list_columns(
    "amount",
    "use",
    *(Column(key, is_right=True) for key in ("used", "reserved", "cap", "free")),
    Column("cap_per_gpu", "Cap per GPU", is_right=True),
    Column("default_per_gpu", "Default per GPU", is_right=True),
)
CONDITION_COLUMNS = list_columns("condition", "status", "since", "message")
"""Both of the GPU quota of one namespace."""

WORKER_COLUMNS = list_columns(
    "workload", "id", "state", "source", Column("gpus", "GPUs", is_right=True, cell="count"),
    Column("request", "Request per GPU", is_right=True, parts="tflops vram_bytes"),
    Column("limit", "Limit per GPU", is_right=True, parts="tflops vram_bytes"),
    Column("counted", cell="created", is_time=True),
)  # fmt: skip
"""Of what counts in the GPU quota of a namespace."""

REVISION_COLUMNS = list_columns(
    "config_type", "name", "revision", Column("user", cell="username"),
    Column("created", cell="created_at", is_time=True), "description", "tags",
)  # fmt: skip

AUDIT_COLUMNS = list_columns(
    "id", Column("time", "When", is_time=True), Column("actor", "User"),
    Column("action", is_extra=True), Column("object", is_extra=True), Column("sentence", "Change"),
    "description", "request_id", "before", "after",
)  # fmt: skip
"""A row of the file is an entry as `/api/audit` lists it."""

VIEW_COLUMNS = list_columns("name", "list", Column("filters", cell="query"), "page")


def needs_text(row: Mapping[str, Any]) -> str:
    """The amounts of an answer about an approval, as `lasting quota 4 → 8`."""
    return ", ".join(
        f"{need.get('amount')} {_amount(need.get('before'))} → {_amount(need.get('after'))}"
        for need in row.get("needs") or ()
    )


def _amount(value: int | None) -> str:
    return "none" if value is None else "unlimited" if value == NO_LIMIT else str(value)


def _approval_state(row: Mapping[str, Any]) -> str:
    return "waits for your decision" if row.get("may_decide") else str(row.get("state"))


APPROVAL_COLUMNS = list_columns(
    Column("request", cell="id"),
    Column("object", cell="subject"),
    Column("change", cell=needs_text),
    Column("reason", cell="description"),
    Column("by", cell="requested_by"),
    Column("requested", cell="requested_at", is_time=True),
    Column("expires", cell="expires_at", is_time=True),
    Column("state", cell=_approval_state),
)


def _owner(row: Mapping[str, Any]) -> str:
    return row.get("user") or (f"pool {row['pool']}" if row.get("pool") else "installation")


def _target_state(row: Mapping[str, Any]) -> str:
    if not row.get("enabled"):
        return f"off: {row['off_reason']}" if row.get("off_reason") else "off"
    return f"{row['failures']} failures, again at {row.get('retry_at')}" if row.get("failures") else "on"


TARGET_COLUMNS = list_columns(
    Column("id", "ID"), "name", Column("owner", cell=_owner), "channel", "address", Column("kinds", "Notices"),
    "pools", "quiet_hours", Column("state", cell=_target_state),
)  # fmt: skip
"""Of the destinations of notices."""

INBOX_COLUMNS = list_columns(
    Column("id", "ID"), Column("time", cell="created_at", is_time=True), Column("news", cell="text", is_sentence=True),
    Column("read", cell=lambda row: "read" if row["read"] else "new"), "kind", Column("about", cell="subject"), "page",
)  # fmt: skip
"""Of the news of a person."""

NOTICE_COLUMNS = list_columns(
    Column("id", "ID"), Column("notice", cell="title"), Column("target", "Destination", cell="target_name"), "status",
    Column("time", cell="created_at", is_time=True), Column("attempts", is_right=True), "error",
)  # fmt: skip


def _sign_in(row: Mapping[str, Any]) -> str:
    return ", ".join([*row["providers"], *(["password"] if row["password"] else [])]) or "token"


USER_COLUMNS = list_columns(
    Column("name", value=attrgetter("username"), cell="id"),
    Column(
        "account", value=lambda user: "ACTIVE" if user.is_active else "DISABLED",
        cell=lambda row: "ACTIVE" if row["active"] else "DISABLED",
    ),
    Column("sign_in", "Signs in by", cell=_sign_in),
    Column("roles", value=lambda user: " ".join(sorted(group.name for group in user.groups.all()))),
    Column("tokens", value=attrgetter("token_count"), is_right=True),
    Column("last_login", value=attrgetter("last_login"), is_time=True),
    Column("created", value=attrgetter("date_joined"), cell="created_at", is_time=True), "created_by",
)  # fmt: skip

TOKEN_COLUMNS = list_columns(
    Column("name", cell="token_name"), Column("user", cell="user_name"), "description", "roles", "created",
    Column("last_used", cell="last_used_at", is_time=True),
    Column("expires", cell="expires_at", is_time=True),
)  # fmt: skip

ROLE_COLUMNS = list_columns(
    Column("role", cell="role_name"), "assigned_by", Column("since", cell="assigned_at", is_time=True)
)
"""Of the roles of a user or a token."""

IDENTITY_COLUMNS = list_columns(
    "provider", Column("name", "Name there"), Column("groups", "Groups there"), "roles",
    Column("signed_on", "Last sign-on"), Column("checked", "Last confirmed"),
)  # fmt: skip
"""Of the accounts of a user at identity providers."""
