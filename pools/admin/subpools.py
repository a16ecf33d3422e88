"""Cutting a pool into slices in the browser: create, resize, delete, recreate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from django.http import HttpRequest, HttpResponse

from pools.admin import forms
from pools.admin.base import PolicyAdmin, actor_of
from pools.admin.confirm_flow import REASON_HELP, ChangeForm, FlowLabels
from pools.admin.pool_tree_flow import PoolTreeFlow
from pools.domain import names
from pools.domain.change_effects import NodeEffect, consequence_messages
from pools.domain.errors import NotFound
from pools.domain.roles import Permission
from pools.domain.subpool_lifecycle import SubpoolState
from pools.models import Pool, Reservation
from pools.permissions import get_visible_root, require_permission
from pools.services.subpools import SubpoolResult, create_subpool, delete_subpool, resize_subpool

QUOTA_HELP = "Whole GPUs, or a share of the pool such as 25%. Fractions are rounded down."


class CreateSubpoolForm(ChangeForm):
    """A new slice."""

    subpool_name = forms.text_field(
        "Name", help_text="Lower-case letters, digits and single hyphens; the pool's name comes in front of it."
    )
    quota = forms.text_field("Quota in GPUs", help_text=QUOTA_HELP, inputmode="decimal")
    description = forms.text_field("Why", help_text=REASON_HELP)


class SubpoolQuotaForm(ChangeForm):
    """The quota of a slice that has a name already."""

    quota = forms.text_field("Quota in GPUs", help_text=QUOTA_HELP, inputmode="decimal")
    description = forms.text_field("Why", help_text=REASON_HELP)


class DeleteSubpoolForm(ChangeForm):
    """The end of a slice."""

    cancel_pending = forms.checkbox_field(
        "Cancel what has not started", help_text="Running work always goes on until it ends by itself."
    )
    description = forms.text_field("Why", help_text=REASON_HELP)


@dataclass(slots=True)
class CreateSubpoolFlow(PoolTreeFlow):
    """A new name."""

    form_class: ClassVar[type[ChangeForm]] = CreateSubpoolForm

    def words(self, form: ChangeForm) -> FlowLabels:
        name = names.canonical_name(self.root.name, form.data.get("subpool_name", ""))
        return FlowLabels(f"Create a slice of {self.root.name}", f"Create {name}")

    def execute(self, form: ChangeForm, *, version: int | None) -> SubpoolResult:
        data = form.cleaned_data
        return create_subpool(
            actor=self.actor,
            parent=self.root.name,
            subpool_name=data["subpool_name"],
            quota=data["quota"],
            description=data["description"],
        )

    def success_message(self, form: ChangeForm, result: Any) -> str:
        verb = "is back" if result.reactivated else "was created"
        return f"{result.row.name} {verb} and is guaranteed {result.subpool.quota} GPUs."


@dataclass(slots=True)
class ExistingSubpoolFlow(PoolTreeFlow):
    """A change of a slice that is there."""

    row: Pool

    state: ClassVar[SubpoolState] = SubpoolState.ACTIVE

    @property
    def short_name(self) -> str:
        """Its name inside its pool."""
        return names.split_name(self.row.name).subpool or ""

    def version(self) -> int | None:
        return self.row.version

    def closed(self) -> str:
        if self.row.subpool_state == self.state:
            return ""
        return f"{self.row.name} is {self.row.subpool_state}; this is possible only while it is {self.state}."


@dataclass(slots=True)
class ResizeSubpoolFlow(ExistingSubpoolFlow):
    """Another quota."""

    form_class: ClassVar[type[ChangeForm]] = SubpoolQuotaForm
    verb: ClassVar[str] = "Resize"
    service: ClassVar[Callable[..., SubpoolResult]] = resize_subpool

    def words(self, form: ChangeForm) -> FlowLabels:
        return FlowLabels(f"{self.verb} {self.row.name}", f"{self.verb} {self.row.name}")

    def initial(self) -> dict[str, Any]:
        return {"quota": self.row.last_quota}

    def execute(self, form: ChangeForm, *, version: int | None) -> SubpoolResult:
        data = form.cleaned_data
        return type(self).service(
            actor=self.actor,
            parent=self.root_name(form),
            subpool_name=self.short_name,
            quota=data["quota"],
            description=data["description"],
            expected_version=version,
        )

    def success_message(self, form: ChangeForm, result: Any) -> str:
        return f"{result.row.name} is guaranteed {result.subpool.quota} GPUs now."


@dataclass(slots=True)
class RecreateSubpoolFlow(ResizeSubpoolFlow):
    """An ARCHIVED slice comes back, with a quota."""

    state: ClassVar[SubpoolState] = SubpoolState.ARCHIVED
    verb: ClassVar[str] = "Recreate"
    service: ClassVar[Callable[..., SubpoolResult]] = create_subpool

    def success_message(self, form: ChangeForm, result: Any) -> str:
        return f"{result.row.name} is back and is guaranteed {result.subpool.quota} GPUs."


@dataclass(slots=True)
class DeleteSubpoolFlow(ExistingSubpoolFlow):
    """A slice goes, its work does not."""

    form_class: ClassVar[type[ChangeForm]] = DeleteSubpoolForm

    def words(self, form: ChangeForm) -> FlowLabels:
        return FlowLabels(f"Delete {self.row.name}", f"Delete {self.row.name}", danger=True)

    def execute(self, form: ChangeForm, *, version: int | None) -> SubpoolResult:
        data = form.cleaned_data
        return delete_subpool(
            actor=self.actor,
            parent=self.root_name(form),
            subpool_name=self.short_name,
            cancel_pending=data["cancel_pending"],
            description=data["description"],
            expected_version=version,
        )

    def remaining_work(self, effect: dict[str, Any]) -> list[Reservation]:
        rows = Reservation.objects.filter(pool=self.row, workflow_name__in=effect["draining"])
        return list(rows.order_by("held_since", "workflow_name"))

    def effect_messages(
        self, nodes: tuple[NodeEffect, ...], remaining: list[Reservation], result: Any
    ) -> tuple[str, ...]:
        cancelled = self.row.usage.live_workflows - result.subpool.usage.live_workflows
        return consequence_messages(nodes, draining=len(remaining), cancelled=cancelled)

    def success_message(self, form: ChangeForm, result: Any) -> str:
        usage, name = result.subpool.usage, result.row.name
        if result.subpool.state is SubpoolState.DELETING:
            return f"{name} drains: {usage.live_workflows} live workflows hold {usage.total_usage} GPUs."
        return f"{name} is archived; nothing is live on it."


def create_subpool_page(admin: PolicyAdmin, request: HttpRequest, pool: str) -> HttpResponse:
    """The pages that make a slice."""
    return CreateSubpoolFlow(admin, request, actor_of(request), _root(request, pool)).respond()


def change_subpool_page(
    admin: PolicyAdmin, request: HttpRequest, pool: str, short_name: str, flow: type[ExistingSubpoolFlow]
) -> HttpResponse:
    """The pages that change a slice."""
    root = _root(request, pool)
    row = Pool.objects.filter(parent=root, subpool_name=short_name).select_related("usage", "parent").first()
    if row is None:
        raise NotFound(f"Pool {root.name} has no subpool {short_name}.")
    return flow(admin, request, actor_of(request), root, row).respond()


def _root(request: HttpRequest, pool: str) -> Pool:
    actor = actor_of(request)
    root = get_visible_root(actor, pool)
    require_permission(actor, Permission.POOL_PARTITION, pool)
    return root
