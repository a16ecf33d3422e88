"""Dividing a pool into subpools in the browser: create, resize, delete, recreate."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from django.forms import Field
from django.http import HttpRequest, HttpResponse

from pools.admin import forms
from pools.admin.base import PolicyAdmin, actor_of
from pools.admin.command_forms import CommandForm, form_for
from pools.admin.configuration.pool_tree_preview import (
    EffectMessages,
    PoolTreePreview,
    no_remaining_work,
    pool_breadcrumbs,
    pool_url,
    tree_messages,
)
from pools.admin.confirm_flow import Change, ConfirmFlow, typed_input
from pools.admin.git_ownership import owned_reason
from pools.admin.live_notes import LiveNote, free_in_pool
from pools.domain import names
from pools.domain.change_effects import NodeEffect, cancelled_text, consequence_messages
from pools.domain.changes.subpools import CreateSubpool, DeleteSubpool, ResizeSubpool, SetDrainDeadline, SubpoolChange
from pools.domain.errors import NotFound
from pools.domain.people.roles import Permission
from pools.domain.quota.stored_quotas import gpus_by_flavor
from pools.domain.structured_input.declared_values import DeclaredValue
from pools.domain.subpool_lifecycle import SubpoolState
from pools.domain.values.amounts import gpu_words
from pools.domain.values.counting import counted
from pools.domain.values.durations import minute_text
from pools.models import Pool, Reservation
from pools.permissions import get_visible_root, require_permission
from pools.selectors.leaf_holders import gpus_in_use_texts
from pools.selectors.quotas.pool_tree import PoolTree
from pools.services.changes.dry_run import EffectAnswer
from pools.services.configuration.subpools import (
    SubpoolResult,
    create_subpool,
    delete_subpool,
    lasting_quota,
    resize_subpool,
    set_drain_deadline,
)

QUOTAS = "quotas"


class SubpoolForm(CommandForm):
    """The form of a subpool with a quota. In a pool with several `flavors` it has a number for each; `parts` count
    parts of shared GPUs."""

    def __init__(self, *args: Any, flavors: Sequence[str], parts: Collection[str], **kwargs: Any) -> None:
        self.flavors, self.parts = flavors if len(flavors) > 1 else (), parts
        self.only = flavors[0] if len(flavors) == 1 else ""
        if self.flavors:
            self.field_by_path = {
                **{f"{QUOTAS}.{flavor}": flavor_field(flavor) for flavor in flavors},
                **dict.fromkeys(("quota", QUOTAS), flavor_field(flavors[0])),
            }
        super().__init__(*args, **kwargs)

    def inputs_of(self, name: str, about: DeclaredValue) -> dict[str, Field]:
        if name == "quota" and self.flavors:
            return {flavor_field(flavor): _flavor_input(flavor, about, self.parts) for flavor in self.flavors}
        about = _in_unit(about, self.only, self.parts) if name == "quota" else about
        return {} if name == QUOTAS else super().inputs_of(name, about)

    def values(self) -> dict[str, Any]:
        typed = {flavor: text for flavor in self.flavors if (text := self.cleaned_data.get(flavor_field(flavor)))}
        return super().values() | ({QUOTAS: typed} if typed else {})


def flavor_field(flavor: str) -> str:
    """The name of the input with the quota of a flavor."""
    return f"{QUOTAS}-{flavor}"


def flavor_values(flavors: Sequence[str], quotas: Mapping[str, int]) -> dict[str, int]:
    """The quotas of a subpool as the values of these inputs."""
    return {flavor_field(flavor): quotas.get(flavor, 0) for flavor in flavors}


def _form_for(kind: type[SubpoolChange], root: Pool, **given: str) -> Callable[..., SubpoolForm]:
    return partial(SubpoolForm, kind, {"parent": root.name, **given}, flavors=root.gpu_flavors, parts=root.part_flavors)


def _flavor_input(flavor: str, about: DeclaredValue, parts: Collection[str]) -> Field:
    about = _in_unit(about, flavor, parts)
    return forms.text_field(f"{about.label}, {flavor}", help_text=about.help, unit=about.unit, inputmode="decimal")


def _in_unit(about: DeclaredValue, flavor: str, parts: Collection[str]) -> DeclaredValue:
    """A number of GPUs of a flavor, which may be parts of GPUs."""
    unit = gpu_words(flavor, parts, is_named=False)[1]
    label, help_text = (text.replace(about.unit, unit) for text in (about.label, about.help))
    return replace(about, label=label, help=help_text, unit=unit)


def create_subpool_page(admin: PolicyAdmin, request: HttpRequest, pool: str) -> HttpResponse:
    """The pages that create a subpool."""
    root = _dividable_root(request, pool)
    return _respond(
        admin,
        request,
        root,
        title=f"Create a subpool of {root.name}",
        unavailable_reason=owned_reason(CreateSubpool, root.name),
        button=f"Create {names.canonical_name(root.name, typed_input(request).get('subpool_name', ''))}",
        form_class=_form_for(CreateSubpool, root),
        service=create_subpool,
        success_message=_creation_message,
        quota_of="",
    )


def resize_subpool_page(admin: PolicyAdmin, request: HttpRequest, pool: str, subpool: str) -> HttpResponse:
    """The pages that give an ACTIVE subpool another quota."""
    root, row = _subpool_of(request, pool, subpool)

    def messages(nodes: tuple[NodeEffect, ...], remaining: list[Reservation], result: SubpoolResult) -> tuple[str, ...]:
        return (*consequence_messages(nodes), *_end_messages(result))

    return _respond(
        admin,
        request,
        root,
        messages,
        title=f"Resize {row.name}",
        unavailable_reason=_unavailable_reason(ResizeSubpool, row, SubpoolState.ACTIVE),
        button=f"Resize {row.name}",
        form_class=_form_for(ResizeSubpool, root, subpool_name=subpool),
        initial=quota_values(row),
        version=row.version,
        service=resize_subpool,
        success_message=_quota_message,
        quota_of=row.name,
        lead=_temporary_text(row),
    )


def recreate_subpool_page(admin: PolicyAdmin, request: HttpRequest, pool: str, subpool: str) -> HttpResponse:
    """The pages that activate an ARCHIVED subpool again, with a quota."""
    root, row = _subpool_of(request, pool, subpool)
    return _respond(
        admin,
        request,
        root,
        title=f"Recreate {row.name}",
        unavailable_reason=_unavailable_reason(CreateSubpool, row, SubpoolState.ARCHIVED),
        button=f"Recreate {row.name}",
        form_class=_form_for(CreateSubpool, root, subpool_name=subpool),
        initial=quota_values(row),
        version=row.version,
        service=create_subpool,
        success_message=_creation_message,
        quota_of=row.name,
    )


def _temporary_text(row: Pool) -> str:
    """What a temporary quota is until then, which its form does not show; empty for a lasting one."""
    if row.quota_until is None:
        return ""
    lasting, _ = lasting_quota(row)
    return f"Raised until {minute_text(row.quota_until)}, then {lasting} again. A change takes the place of both."


def quota_values(row: Pool) -> dict[str, Any]:
    """The quota of a subpool as the values of its form."""
    return {"quota": row.last_quota, **flavor_values(row.root.gpu_flavors, gpus_by_flavor(row.flavors))}


def delete_subpool_page(admin: PolicyAdmin, request: HttpRequest, pool: str, subpool: str) -> HttpResponse:
    """The pages that delete a subpool, whose running work continues."""
    root, row = _subpool_of(request, pool, subpool)

    def remaining_work(effect: EffectAnswer) -> list[Reservation]:
        rows = Reservation.objects.filter(pool=row, workflow_name__in=effect["draining"])
        return list(rows.order_by("held_since", "workflow_name"))

    def messages(nodes: tuple[NodeEffect, ...], remaining: list[Reservation], result: SubpoolResult) -> tuple[str, ...]:
        found = consequence_messages(nodes, draining=len(remaining), cancelled=result.cancelled or 0)
        return (*found, _deadline_message(result)) if result.row.drain_by else found

    def success_message(result: SubpoolResult) -> str:
        usage, name = result.subpool.usage, result.row.name
        ended = "" if result.cancelled is None else f" {cancelled_text(result.cancelled)}"
        if result.subpool.state is SubpoolState.DELETING:
            work = counted(usage.live_workflows, "active workflow holds", "active workflows hold")
            text = f"{name} is draining: {work} {gpus_in_use_texts([result.row])[name]}.{ended}"
            return f"{text} {_deadline_message(result)}" if result.row.drain_by else text
        return f"{name} is archived; it has no active workflows.{ended}"

    return _respond(
        admin,
        request,
        root,
        messages,
        remaining_work,
        title=f"Delete {row.name}",
        unavailable_reason=_unavailable_reason(DeleteSubpool, row, SubpoolState.ACTIVE),
        button=f"Delete {row.name}",
        danger=True,
        form_class=form_for(DeleteSubpool, parent=root.name, subpool_name=subpool),
        version=row.version,
        service=delete_subpool,
        success_message=success_message,
    )


def drain_deadline_page(admin: PolicyAdmin, request: HttpRequest, pool: str, subpool: str) -> HttpResponse:
    """The pages that set the time at which the work of a draining subpool should have ended."""
    root, row = _subpool_of(request, pool, subpool)

    def messages(_: tuple[NodeEffect, ...], __: list[Reservation], result: SubpoolResult) -> tuple[str, ...]:
        return (_deadline_message(result),)

    return _respond(
        admin,
        request,
        root,
        messages,
        title=f"Deadline of the drain of {row.name}",
        unavailable_reason=_unavailable_reason(SetDrainDeadline, row, SubpoolState.DELETING),
        button="Save the deadline",
        form_class=form_for(SetDrainDeadline, parent=root.name, subpool_name=subpool),
        initial={"drain_by": row.drain_by},
        version=row.version,
        service=set_drain_deadline,
        success_message=_deadline_message,
    )


def _respond(
    admin: PolicyAdmin,
    request: HttpRequest,
    root: Pool,
    messages: EffectMessages[SubpoolResult] = tree_messages,
    remaining_work: Callable[[EffectAnswer], list[Reservation]] = no_remaining_work,
    quota_of: str | None = None,
    lead: str = "",
    **texts: Any,
) -> HttpResponse:
    """The pages of one change of a subpool of `root`; `texts` are fields of its :class:`Change`. `quota_of` is the
    subpool that gets a quota, empty for a new one; None: the form has no quota. `lead` stands above the form."""

    def note(tree: PoolTree | None) -> LiveNote | None:
        return (
            None
            if tree is None or quota_of is None or len(root.flavors) > 1 or root.part_flavors
            else free_in_pool(tree, quota_of)
        )

    preview = PoolTreePreview(
        actor=actor_of(request),
        pool=root,
        root_name=root.name,
        messages=messages,
        remaining_work=remaining_work,
        live_note=note,
        lead=lead,
    )
    change = Change(
        breadcrumbs=pool_breadcrumbs(root),
        preview=preview,
        success_url=pool_url(root.name),
        **texts,
    )
    return ConfirmFlow(admin, request, change).respond()


def _creation_message(result: SubpoolResult) -> str:
    verb = "is active again" if result.reactivated else "was created"
    return f"{result.row.name} {verb}; its quota is {result.quota_text}."


def _quota_message(result: SubpoolResult) -> str:
    return " ".join([f"The quota of {result.row.name} is {result.quota_text} now.", *_end_messages(result)])


def _deadline_message(result: SubpoolResult) -> str:
    """The deadline of a drain."""
    if result.row.drain_by is None:
        return f"The drain of {result.row.name} has no deadline."
    end = minute_text(result.row.drain_by)
    return f"The work of {result.row.name} should have ended by {end}; no work is stopped then."


def _end_messages(result: SubpoolResult) -> tuple[str, ...]:
    """The end of a temporary quota."""
    end = result.subpool.until
    if end is None:
        return ()
    return (f"At {minute_text(end)} it is {result.quota_after_text} again, without stopping running work.",)


def _unavailable_reason(kind: type[SubpoolChange], row: Pool, required: SubpoolState) -> str:
    """The reason why the subpool cannot be changed here: its owner, or its state; empty if it can."""
    return owned_reason(kind, row.root.name) or _state_reason(row, required)


def _state_reason(row: Pool, required: SubpoolState) -> str:
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
