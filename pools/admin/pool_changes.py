"""Creating and configuring top-level pools in the browser, for osmo-admin."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse

from pools.admin import forms
from pools.admin.base import PolicyAdmin, actor_of
from pools.admin.confirm_flow import REASON_HELP, Change, ChangeForm, ConfirmFlow, typed_input
from pools.admin.git_ownership import owned_reason
from pools.admin.pool_tree_preview import PoolTreePreview, pool_breadcrumbs, pool_url
from pools.domain.amounts import encode_gpus
from pools.domain.change_effects import NodeEffect, consequence_messages
from pools.domain.changes.pools import PatchPool, PutPool
from pools.domain.ownership import OwnedKind
from pools.domain.pool_config import APPROVAL_ABOVE, HOLD_AFTER, editable_body
from pools.domain.roles import Permission
from pools.domain.scalars import typed_number
from pools.models import Backend, Pool, Reservation
from pools.permissions import get_visible_root, require_permission, require_platform
from pools.representations.pool import pool_settings_of
from pools.services.pool_configuration import PoolResult
from pools.services.pools import create_pool, patch_pool, put_pool

GPU_PATH = "resources.gpu"
FIELD_BY_PATH = {
    f"{GPU_PATH}.guarantee": "guarantee",
    f"{GPU_PATH}.maximum": "maximum",
    f"{GPU_PATH}.weight": "weight",
    "description": "about",
}
AMOUNT_HELP = "Whole GPUs; -1 for no limit."


class PoolConfigForm(ChangeForm):
    """The part of a pool's configuration that is edited here; the rest (platforms, timeouts, …) stays as it is."""

    field_by_path = FIELD_BY_PATH
    guarantee = forms.text_field(
        "Quota in GPUs",
        help_text=f"{AMOUNT_HELP} Subpools get their quotas from it (“guarantee” in the API).",
        inputmode="numeric",
    )
    maximum = forms.text_field(
        "Maximum in GPUs",
        help_text=f"{AMOUNT_HELP} LOW work may use GPUs over the quota up to this number.",
        inputmode="numeric",
    )
    weight = forms.text_field("Weight", help_text="Share of unused GPUs, relative to other pools.", inputmode="numeric")
    cohort = forms.text_field(
        "Cohort",
        help_text="The group of pools that lend each other unused GPUs; empty for none. A new name creates a cohort.",
    )
    borrowing_limit = forms.text_field(
        "Borrowing limit in GPUs",
        help_text="In its cohort: how many GPUs LOW work may use beyond the quota. Empty: no limit.",
        inputmode="numeric",
    )
    lending_limit = forms.text_field(
        "Lending limit in GPUs",
        help_text="In its cohort: how much of the idle quota others may use. Empty: all of it.",
        inputmode="numeric",
    )
    approval_above = forms.text_field(
        "Approval above (GPUs)",
        help_text="A change of a quota here by more GPUs needs the approval of a second person. Empty: none does.",
        inputmode="numeric",
    )
    hold_after = forms.text_field(
        "Hold later work after (seconds)",
        help_text="On a Kubernetes cluster: after this wait the first work of a queue keeps its place, and later work "
        "of the pool that would compete with it is not sent to the cluster until it has started. Empty: never.",
        inputmode="numeric",
    )
    about = forms.text_area_field(
        "Description", help_text="What the pool is for; everybody who sees the pool can read it.", rows=2
    )
    maintenance = forms.checkbox_field(
        "In maintenance", help_text="Only osmo-admin may submit. Running work continues."
    )
    description = forms.text_field("Reason", help_text=REASON_HELP)


class CreatePoolForm(PoolConfigForm):
    """A new pool."""

    field_order = ("name", "backend")
    name = forms.text_field("Name", help_text="Lower-case letters, digits and single hyphens, a letter first.")
    backend = forms.choice_field("Cluster", help_text="The cluster (backend) that runs the pool's work.")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        names = Backend.objects.order_by("name").values_list("name", flat=True)
        self.fields["backend"].choices = [(name, name) for name in names]  # type: ignore[attr-defined]


def pool_config_from(form: ChangeForm) -> dict[str, Any]:
    """The input as the configuration's JSON; an empty amount is left out."""
    data = form.cleaned_data
    typed = {key: data[key] for key in ("guarantee", "maximum", "weight")}
    limits = {key: data[key].strip() for key in ("borrowing_limit", "lending_limit")}
    body = {
        "cohort": data["cohort"].strip() or None,
        **{key: typed_number(text) if text else None for key, text in limits.items()},
        "description": data["about"],
        "enable_maintenance": data["maintenance"],
        "resources": {"gpu": {key: typed_number(text) for key, text in typed.items() if text}},
    }
    for key in (APPROVAL_ABOVE, HOLD_AFTER):
        if key in form.data:
            text = data[key].strip()
            body[key] = typed_number(text) if text else None
    return body | {"backend": data["backend"]} if "backend" in data else body


def create_pool_page(admin: PolicyAdmin, request: HttpRequest) -> HttpResponse:
    """The pages that create a pool."""
    actor = actor_of(request)
    require_platform(actor, Permission.POOL_CONFIGURE)
    name = typed_input(request).get("name", "").strip()

    def execute(form: ChangeForm, version: int | None) -> PoolResult:
        return create_pool(
            actor=actor, name=name, body=pool_config_from(form), description=form.cleaned_data["description"]
        )

    def creation_messages(
        nodes: tuple[NodeEffect, ...], remaining: list[Reservation], result: PoolResult
    ) -> tuple[str, ...]:
        roles = f"osmo-{name}-admin and osmo-{name}-user"
        return (f"{name} and its roles {roles} are created. Assign the roles to users afterwards.",)

    change = Change(
        title="Create a pool",
        button=f"Create {name}",
        breadcrumbs=pool_breadcrumbs(None),
        form_class=CreatePoolForm,
        initial={"guarantee": "0", "maximum": "-1", "weight": "1"},
        preview=PoolTreePreview(
            actor=actor,
            pool=None,
            root_name=name,
            changes_configuration=True,
            messages=creation_messages,
        ),
        execute=execute,
        success_message=lambda result: (
            f"Pool {result.row.name} was created. Now divide it into subpools, and assign its roles to users."
        ),
        success_url=lambda result: pool_url(result.row.name),
    )
    return ConfirmFlow(admin, request, change).respond()


def configure_pool_page(admin: PolicyAdmin, request: HttpRequest, pool: str) -> HttpResponse:
    """The pages that configure a pool; for an archived pool they restore it."""
    actor, root = actor_of(request), configurable_root(request, pool)

    def command(form: ChangeForm) -> PutPool | PatchPool:
        if root.archived:
            return PutPool(name=root.name, body=editable_body(pool_settings_of(root)) | pool_config_from(form))
        return PatchPool(name=root.name, patch=pool_config_from(form))

    def messages(nodes: tuple[NodeEffect, ...], remaining: list[Reservation], result: PoolResult) -> tuple[str, ...]:
        found = list(consequence_messages(nodes))
        if result.reactivated:
            found.append(f"{root.name} accepts work again.")
        if result.row.enable_maintenance and not root.enable_maintenance:
            found.append("Maintenance begins: only osmo-admin may submit, running work continues.")
        if root.enable_maintenance and not result.row.enable_maintenance:
            found.append("Maintenance ends: everybody with a role may submit again.")
        return tuple(found)

    change = Change(
        title=f"Bring {root.name} back" if root.archived else f"Configure {root.name}",
        button=f"Bring {root.name} back" if root.archived else "Save the configuration",
        unavailable_reason=owned_reason(OwnedKind.POOL, root.name),
        breadcrumbs=pool_breadcrumbs(root),
        form_class=PoolConfigForm,
        initial=pool_form_values(root),
        version=root.version,
        preview=PoolTreePreview(
            actor=actor, pool=root, root_name=root.name, changes_configuration=True, messages=messages
        ),
        command=command,
        service=put_pool if root.archived else patch_pool,
        success_message=lambda result: f"The configuration of {result.row.name} was saved.",
        success_url=lambda _: pool_url(root.name),
    )
    return ConfirmFlow(admin, request, change).respond()


def pool_form_values(root: Pool) -> dict[str, Any]:
    """A pool as the values of its form."""
    return {
        "guarantee": encode_gpus(root.effective_guarantee),
        "maximum": encode_gpus(root.effective_maximum),
        "weight": 1 if root.weight is None else root.weight,
        "cohort": root.cohort.name if root.cohort else "",
        "borrowing_limit": root.borrowing_limit,
        "lending_limit": root.lending_limit,
        APPROVAL_ABOVE: root.config.get(APPROVAL_ABOVE),
        HOLD_AFTER: root.config.get(HOLD_AFTER),
        "about": root.description,
        "maintenance": root.enable_maintenance,
    }


def configurable_root(request: HttpRequest, pool: str) -> Pool:
    """The pool. Raises NotFound for one that the person may not see, Forbidden without the right to configure it."""
    actor = actor_of(request)
    root = get_visible_root(actor, pool)
    require_permission(actor, Permission.POOL_CONFIGURE, pool)
    return root
