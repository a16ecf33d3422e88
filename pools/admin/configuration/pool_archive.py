"""Archiving top-level pools in the browser, for osmo-admin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.http import urlencode

from pools.admin.base import PolicyAdmin, actor_of
from pools.admin.command_forms import form_for
from pools.admin.configuration.pool_changes import configurable_root
from pools.admin.configuration.pool_tree_preview import pool_breadcrumbs, pool_url
from pools.admin.confirm_flow import Change, ConfirmFlow, FirstStep
from pools.admin.effect_tables import field_label
from pools.admin.git_ownership import owned_reason
from pools.admin.object_preview import CONFIGS, ObjectPreview
from pools.domain.changes.pools import DeletePool
from pools.domain.names import SHARED_QUEUE
from pools.domain.people.roles import Actor, PoolRoleKind, pool_role
from pools.domain.quota.stored_quotas import gpus_by_flavor
from pools.domain.quota.tree import LIMIT_KEYS
from pools.domain.subpool_lifecycle import SubpoolState
from pools.domain.values.amounts import encode_gpus, gpus_text
from pools.domain.values.counting import counted
from pools.models import Pool, RoleAssignment
from pools.selectors.quotas.pool_balance import read_balance
from pools.services.configuration.pools import delete_pool


@dataclass(frozen=True, slots=True)
class _Removed:
    """The archived pool; None if the pool was deleted."""

    row: Pool | None
    warnings: tuple[str, ...] = ()


def _remove(command: DeletePool, **note: Any) -> _Removed:
    return _Removed(delete_pool(command, **note))


def archive_pool_page(admin: PolicyAdmin, request: HttpRequest, pool: str) -> HttpResponse:
    """The pages that remove a pool: it is archived if it ever had subpools or work, deleted otherwise."""
    actor, root = actor_of(request), configurable_root(request, pool)

    def success_message(result: _Removed) -> str:
        return f"Pool {root.name} was {'archived; it can be brought back' if result.row else 'deleted'}."

    change = Change(
        title=f"Archive {root.name}",
        button=f"Archive {root.name}",
        danger=True,
        unavailable_reason=owned_reason(DeletePool, root.name) or _archived_reason(root),
        first_steps=tuple(_first_steps(root)),
        breadcrumbs=pool_breadcrumbs(root),
        form_class=form_for(DeletePool, name=root.name),
        version=root.version,
        preview=_archive_preview(actor, root.name),
        service=_remove,
        success_message=success_message,
        success_url=_next_page,
    )
    return ConfirmFlow(admin, request, change).respond()


def _next_page(result: _Removed) -> str:
    return pool_url(result.row.name) if result.row else reverse("admin:pools_pool_changelist")


def _archived_reason(root: Pool) -> str:
    return f"{root.name} is archived already. The page of the pool can bring it back." if root.archived else ""


def _first_steps(root: Pool) -> Iterator[FirstStep]:
    """The subpools and the active work that the pool must not have any more, each with the page that ends it."""
    facts, flavors = read_balance(root), root.part_flavors
    for part in facts.subpools:
        if part.state is SubpoolState.ACTIVE:
            yield FirstStep(
                f"{root.name}--{part.name} has a quota of {gpus_text(part.last_quota, part.last_quotas, flavors)} and "
                f"{_active_work(part.usage.live_workflows)}. Delete it; its work is not stopped.",
                f"Delete {root.name}--{part.name}",
                reverse("admin:pools_subpool_delete", args=[root.name, part.name]),
            )
        elif part.state is SubpoolState.DELETING:
            yield FirstStep(
                f"{root.name}--{part.name} is draining and has {_active_work(part.usage.live_workflows)}. It is "
                "archived by itself when all its work has ended.",
                f"Work of {root.name}--{part.name}",
                _work_address(f"{root.name}--{part.name}"),
            )
    if count := facts.shared_usage.live_workflows:
        yield FirstStep(
            f"The pool remainder of {root.name} has {_active_work(count)}. Wait until all of it has "
            "ended, or cancel it.",
            f"Work of {root.name}",
            _work_address(f"{root.name}--{SHARED_QUEUE}"),
        )


def _active_work(count: int) -> str:
    return counted(count, "active workflow") if count else "no active work"


def _work_address(leaf: str) -> str:
    return f"{reverse('admin:scheduling_workflow_changelist')}?{urlencode({'pool': leaf, 'status': 'active'})}"


def _archive_preview(actor: Actor, name: str) -> ObjectPreview[_Removed]:
    return ObjectPreview(
        actor=actor,
        read_state=partial(_archive_state, name),
        label_of=field_label,
        messages=partial(_archive_messages, name),
        form_words={
            "lead": f"{name} accepts no more work and leaves the lists; its archived subpools and its history stay, "
            "and it can be brought back. It must have no subpools and no active work. A pool that never had any is "
            "deleted for good."
        },
    )


def _archive_state(name: str) -> dict[str, Any]:
    row = Pool.objects.roots().select_related("cohort", "backend").filter(name=name).first()
    holders = RoleAssignment.objects.filter(group__name__in=[pool_role(name, kind) for kind in PoolRoleKind])
    people = holders.values("user").distinct().count()
    if row is None:
        return {CONFIGS: {"pool": "deleted"}, "people": people}
    return {
        CONFIGS: {
            "pool": "archived" if row.archived else "in use",
            "cohort": row.cohort.name if row.cohort else None,
            **{limit: getattr(row, limit) for limit in LIMIT_KEYS},
        },
        "people": people,
        "quota_text": gpus_text(row.guarantee or 0, gpus_by_flavor(row.flavors), row.part_flavors),
        "quota": encode_gpus(row.effective_guarantee),  # a quota without a limit gives no number of GPUs back
        "backend": row.backend.name if row.backend else "",
    }


def _archive_messages(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    people = counted(before["people"], "user")
    if after[CONFIGS]["pool"] == "deleted":
        yield f"{name} never had subpools or work, so it is deleted for good, with its roles, which {people} had."
    else:
        yield f"{name} leaves the lists and accepts no work. It can be brought back; its roles stay with {people}."
    if before["quota"] > 0:
        yield f"Its quota of {before['quota_text']} of cluster {before['backend']} can be given to other pools."
    if cohort := before[CONFIGS]["cohort"]:
        yield f"It leaves cohort {cohort}: its idle quota is lent to nobody any more."
