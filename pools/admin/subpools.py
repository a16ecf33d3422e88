"""Dividing a pool into subpools in the browser: create, resize, delete, recreate."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
from typing import Any

from django.http import HttpRequest, HttpResponse

from pools.admin import forms
from pools.admin.base import PolicyAdmin, actor_of
from pools.admin.confirm_flow import REASON_HELP, Change, ChangeForm, ConfirmFlow, typed_input
from pools.admin.git_ownership import owned_reason
from pools.admin.pool_tree_preview import PoolTreePreview, pool_breadcrumbs, pool_url
from pools.domain import names
from pools.domain.approvals import ApprovalService
from pools.domain.change_effects import NodeEffect, consequence_messages
from pools.domain.counting import counted
from pools.domain.errors import NotFound
from pools.domain.ownership import OwnedKind
from pools.domain.roles import Permission
from pools.domain.subpool_lifecycle import SubpoolState
from pools.models import Pool, Reservation
from pools.permissions import get_visible_root, require_permission
from pools.services.approvals import RequestedChange
from pools.services.subpools import (
    SubpoolResult,
    create_subpool,
    delete_subpool,
    resize_subpool,
    set_drain_deadline,
)

QUOTA_HELP = "Whole GPUs, or a share of the pool such as 25%. Fractions are rounded down."


DEADLINE_HELP = (
    "The time at which the work of the subpool should have ended. It stops no work: after it, the home page warns and "
    "notices are sent."
)


class CreateSubpoolForm(ChangeForm):
    """A new subpool."""

    subpool_name = forms.text_field(
        "Name", help_text="Lower-case letters, digits and single hyphens; the pool's name comes in front of it."
    )
    quota = forms.text_field("Quota in GPUs", help_text=QUOTA_HELP, inputmode="decimal")
    description = forms.text_field("Reason", help_text=REASON_HELP)


class SubpoolQuotaForm(ChangeForm):
    """The quota of a subpool that has a name already."""

    quota = forms.text_field("Quota in GPUs", help_text=QUOTA_HELP, inputmode="decimal")
    description = forms.text_field("Reason", help_text=REASON_HELP)


class ResizeForm(SubpoolQuotaForm):
    """Another quota of an ACTIVE subpool, lasting or until a time."""

    field_order = ("quota", "until", "description")
    until = forms.time_field(
        "Until (UTC)", help_text="Empty for a lasting quota. A raise with an end is given back at that time by itself."
    )


class DeadlineForm(ChangeForm):
    """The deadline of a drain."""

    drain_by = forms.time_field("Deadline (UTC)", help_text=f"{DEADLINE_HELP} Empty for none.")
    description = forms.text_field("Reason", help_text=REASON_HELP)


class DeleteSubpoolForm(ChangeForm):
    """The deletion of a subpool."""

    cancel_pending = forms.checkbox_field(
        "Cancel the workflows that have not started", help_text="Running work always continues until it ends by itself."
    )
    drain_by = forms.time_field("Deadline (UTC)", help_text=DEADLINE_HELP)
    description = forms.text_field("Reason", help_text=REASON_HELP)


def create_subpool_page(admin: PolicyAdmin, request: HttpRequest, pool: str) -> HttpResponse:
    """The pages that create a subpool."""
    actor, root = actor_of(request), _dividable_root(request, pool)

    def execute(form: ChangeForm, version: int | None) -> SubpoolResult:
        return create_subpool(
            actor=actor,
            parent=root.name,
            subpool_name=form.cleaned_data["subpool_name"],
            quota=form.cleaned_data["quota"],
            description=form.cleaned_data["description"],
        )

    def success_message(result: SubpoolResult) -> str:
        verb = "is active again" if result.reactivated else "was created"
        return f"{result.row.name} {verb}; its quota is {result.subpool.quota} GPUs."

    change = Change(
        title=f"Create a subpool of {root.name}",
        unavailable_reason=owned_reason(OwnedKind.POOL, root.name, subpools=True),
        button=f"Create {names.canonical_name(root.name, typed_input(request).get('subpool_name', ''))}",
        breadcrumbs=pool_breadcrumbs(root),
        form_class=CreateSubpoolForm,
        preview=PoolTreePreview(actor=actor, pool=root, root_name=root.name),
        execute=execute,
        requested=lambda form: _requested(
            ApprovalService.CREATE_SUBPOOL,
            root,
            form,
            {"subpool_name": form.cleaned_data["subpool_name"], "quota": form.cleaned_data["quota"]},
        ),
        success_message=success_message,
        success_url=lambda _: pool_url(root.name),
    )
    return ConfirmFlow(admin, request, change).respond()


def resize_subpool_page(admin: PolicyAdmin, request: HttpRequest, pool: str, subpool: str) -> HttpResponse:
    """The pages that give an ACTIVE subpool another quota."""
    actor, root, row = actor_of(request), *_subpool_of(request, pool, subpool)

    def execute(form: ChangeForm, version: int | None) -> SubpoolResult:
        return resize_subpool(
            actor=actor,
            parent=root.name,
            subpool_name=subpool,
            quota=form.cleaned_data["quota"],
            until=form.cleaned_data["until"],
            description=form.cleaned_data["description"],
            expected_version=version,
        )

    def messages(nodes: tuple[NodeEffect, ...], remaining: list[Reservation], result: SubpoolResult) -> tuple[str, ...]:
        return (*consequence_messages(nodes), *_end_messages(result))

    change = Change(
        title=f"Resize {row.name}",
        unavailable_reason=owned_reason(OwnedKind.POOL, root.name, subpools=True)
        or _unavailable_reason(row, SubpoolState.ACTIVE),
        button=f"Resize {row.name}",
        breadcrumbs=pool_breadcrumbs(root),
        form_class=ResizeForm,
        initial={"quota": row.last_quota},
        version=row.version,
        preview=PoolTreePreview(
            actor=actor,
            pool=root,
            root_name=root.name,
            messages=messages,
        ),
        execute=execute,
        requested=lambda form: _requested(
            ApprovalService.RESIZE_SUBPOOL,
            root,
            form,
            {"subpool_name": subpool, "quota": form.cleaned_data["quota"], "until": form.cleaned_data["until"]},
        ),
        success_message=lambda result: " ".join(
            [f"The quota of {result.row.name} is {result.subpool.quota} GPUs now.", *_end_messages(result)]
        ),
        success_url=lambda _: pool_url(root.name),
    )
    return ConfirmFlow(admin, request, change).respond()


def recreate_subpool_page(admin: PolicyAdmin, request: HttpRequest, pool: str, subpool: str) -> HttpResponse:
    """The pages that activate an ARCHIVED subpool again, with a quota."""
    actor, root, row = actor_of(request), *_subpool_of(request, pool, subpool)

    def execute(form: ChangeForm, version: int | None) -> SubpoolResult:
        return create_subpool(
            actor=actor,
            parent=root.name,
            subpool_name=subpool,
            quota=form.cleaned_data["quota"],
            description=form.cleaned_data["description"],
            expected_version=version,
        )

    change = Change(
        title=f"Recreate {row.name}",
        unavailable_reason=owned_reason(OwnedKind.POOL, root.name, subpools=True)
        or _unavailable_reason(row, SubpoolState.ARCHIVED),
        button=f"Recreate {row.name}",
        breadcrumbs=pool_breadcrumbs(root),
        form_class=SubpoolQuotaForm,
        initial={"quota": row.last_quota},
        version=row.version,
        preview=PoolTreePreview(
            actor=actor,
            pool=root,
            root_name=root.name,
        ),
        execute=execute,
        requested=lambda form: _requested(
            ApprovalService.CREATE_SUBPOOL, root, form, {"subpool_name": subpool, "quota": form.cleaned_data["quota"]}
        ),
        success_message=lambda result: f"{result.row.name} is active again; its quota is {result.subpool.quota} GPUs.",
        success_url=lambda _: pool_url(root.name),
    )
    return ConfirmFlow(admin, request, change).respond()


def delete_subpool_page(admin: PolicyAdmin, request: HttpRequest, pool: str, subpool: str) -> HttpResponse:
    """The pages that delete a subpool, whose running work continues."""
    actor, root, row = actor_of(request), *_subpool_of(request, pool, subpool)

    def execute(form: ChangeForm, version: int | None) -> SubpoolResult:
        return delete_subpool(
            actor=actor,
            parent=root.name,
            subpool_name=subpool,
            cancel_pending=form.cleaned_data["cancel_pending"],
            drain_by=form.cleaned_data["drain_by"],
            description=form.cleaned_data["description"],
            expected_version=version,
        )

    def remaining_work(effect: dict[str, Any]) -> list[Reservation]:
        rows = Reservation.objects.filter(pool=row, workflow_name__in=effect["draining"])
        return list(rows.order_by("held_since", "workflow_name"))

    def messages(nodes: tuple[NodeEffect, ...], remaining: list[Reservation], result: SubpoolResult) -> tuple[str, ...]:
        cancelled = row.usage.live_workflows - result.subpool.usage.live_workflows
        found = consequence_messages(nodes, draining=len(remaining), cancelled=cancelled)
        return (*found, _deadline_message(result)) if result.row.drain_by else found

    def success_message(result: SubpoolResult) -> str:
        usage, name = result.subpool.usage, result.row.name
        if result.subpool.state is SubpoolState.DELETING:
            work = counted(usage.live_workflows, "active workflow holds", "active workflows hold")
            text = f"{name} is draining: {work} {counted(usage.total_usage, 'GPU')}."
            return f"{text} {_deadline_message(result)}" if result.row.drain_by else text
        return f"{name} is archived; it has no active workflows."

    change = Change(
        title=f"Delete {row.name}",
        unavailable_reason=owned_reason(OwnedKind.POOL, root.name, subpools=True)
        or _unavailable_reason(row, SubpoolState.ACTIVE),
        button=f"Delete {row.name}",
        danger=True,
        breadcrumbs=pool_breadcrumbs(root),
        form_class=DeleteSubpoolForm,
        version=row.version,
        preview=PoolTreePreview(
            actor=actor,
            pool=root,
            root_name=root.name,
            messages=messages,
            remaining_work=remaining_work,
        ),
        execute=execute,
        requested=lambda form: _requested(
            ApprovalService.DELETE_SUBPOOL,
            root,
            form,
            {
                "subpool_name": subpool,
                "cancel_pending": form.cleaned_data["cancel_pending"],
                "drain_by": form.cleaned_data["drain_by"],
            },
        ),
        success_message=success_message,
        success_url=lambda _: pool_url(root.name),
    )
    return ConfirmFlow(admin, request, change).respond()


def drain_deadline_page(admin: PolicyAdmin, request: HttpRequest, pool: str, subpool: str) -> HttpResponse:
    """The pages that set the time at which the work of a draining subpool should have ended."""
    actor, root, row = actor_of(request), *_subpool_of(request, pool, subpool)

    def execute(form: ChangeForm, version: int | None) -> SubpoolResult:
        return set_drain_deadline(
            actor=actor,
            parent=root.name,
            subpool_name=subpool,
            drain_by=form.cleaned_data["drain_by"],
            description=form.cleaned_data["description"],
            expected_version=version,
        )

    def messages(_: tuple[NodeEffect, ...], __: list[Reservation], result: SubpoolResult) -> tuple[str, ...]:
        return (_deadline_message(result),)

    change = Change(
        title=f"Deadline of the drain of {row.name}",
        unavailable_reason=_unavailable_reason(row, SubpoolState.DELETING),
        button="Save the deadline",
        breadcrumbs=pool_breadcrumbs(root),
        form_class=DeadlineForm,
        initial={"drain_by": row.drain_by},
        version=row.version,
        preview=PoolTreePreview(
            actor=actor,
            pool=root,
            root_name=root.name,
            messages=messages,
        ),
        execute=execute,
        success_message=_deadline_message,
        success_url=lambda _: pool_url(root.name),
    )
    return ConfirmFlow(admin, request, change).respond()


def _deadline_message(result: SubpoolResult) -> str:
    """The deadline of a drain."""
    if result.row.drain_by is None:
        return f"The drain of {result.row.name} has no deadline."
    end = f"{result.row.drain_by.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    return f"The work of {result.row.name} should have ended by {end}; no work is stopped then."


def _end_messages(result: SubpoolResult) -> tuple[str, ...]:
    """The end of a temporary quota."""
    end, after = result.subpool.until, result.subpool.quota_after
    if end is None:
        return ()
    return (f"At {end.astimezone(UTC):%Y-%m-%d %H:%M} UTC it is {after} GPUs again, without stopping running work.",)


def _unavailable_reason(row: Pool, required: SubpoolState) -> str:
    """The reason why the subpool's state does not allow a change; empty if it does."""
    if row.subpool_state == required:
        return ""
    reason = f"{row.name} is {row.subpool_state}; this is possible only while it is {required}."
    if row.subpool_state != SubpoolState.DELETING:
        return reason
    return (
        f"{reason} A deletion cannot be resumed or taken back: it ends when the last workflow has ended. Then the "
        "subpool is archived, and can be recreated from the page of its pool."
    )


def _subpool_of(request: HttpRequest, pool: str, subpool: str) -> tuple[Pool, Pool]:
    """The pool and its subpool. Raises NotFound for an unknown one, Forbidden without the pool's admin role."""
    root = _dividable_root(request, pool)
    row = Pool.objects.filter(parent=root, subpool_name=subpool).select_related("usage", "parent").first()
    if row is None:
        raise NotFound(f"Pool {root.name} has no subpool {subpool}.")
    return root, row


def _dividable_root(request: HttpRequest, pool: str) -> Pool:
    actor = actor_of(request)
    root = get_visible_root(actor, pool)
    require_permission(actor, Permission.POOL_PARTITION, pool)
    return root


def _requested(service: ApprovalService, root: Pool, form: ChangeForm, arguments: Mapping[str, Any]) -> RequestedChange:
    return RequestedChange(service, {"parent": root.name, **arguments}, form.cleaned_data["description"])
