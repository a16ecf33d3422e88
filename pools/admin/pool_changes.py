"""Making, configuring and archiving top-level pools in the browser, for osmo-admin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from pools.admin import forms
from pools.admin.base import PolicyAdmin, actor_of
from pools.admin.confirm_flow import REASON_HELP, ChangeForm, FlowLabels
from pools.admin.pool_tree_flow import PoolTreeFlow
from pools.domain.change_effects import NodeEffect, consequence_messages
from pools.domain.errors import Conflict, DomainError, Violation
from pools.domain.pool_config import editable_body
from pools.domain.roles import Permission
from pools.locking import lock_configuration
from pools.models import Backend, Pool, Reservation
from pools.permissions import get_visible_root, require_permission, require_platform
from pools.representations.pool import pool_settings_of
from pools.services.cohort_effects import effect_with_debts
from pools.services.dry_run import read_pool_tree
from pools.services.pool_configuration import PoolResult
from pools.services.pools import delete_pool, patch_pool, put_pool
from pools.transactions import change

GPU_PATH = "resources.gpu"
FIELD_BY_PATH = {
    f"{GPU_PATH}.guarantee": "guarantee",
    f"{GPU_PATH}.maximum": "maximum",
    f"{GPU_PATH}.weight": "weight",
    "description": "about",
}
AMOUNT_HELP = "Whole GPUs; -1 for no limit."


class PoolConfigForm(ChangeForm):
    """What of a pool's configuration is edited here; the rest (platforms, timeouts, …) stays as it is."""

    field_by_path = FIELD_BY_PATH
    guarantee = forms.text_field(
        "Guarantee in GPUs", help_text=f"{AMOUNT_HELP} Slices are cut from it.", inputmode="numeric"
    )
    maximum = forms.text_field(
        "Maximum in GPUs",
        help_text=f"{AMOUNT_HELP} LOW work may go over the guarantee up to here.",
        inputmode="numeric",
    )
    weight = forms.text_field(
        "Weight", help_text="Share of what nobody uses, against other pools.", inputmode="numeric"
    )
    cohort = forms.text_field(
        "Cohort", help_text="What it shares with others; empty for none. A new name makes a new cohort."
    )
    borrowing_limit = forms.text_field(
        "Borrowing limit in GPUs",
        help_text="In its cohort: how far LOW work may go beyond the guarantee. Empty: no limit.",
        inputmode="numeric",
    )
    lending_limit = forms.text_field(
        "Lending limit in GPUs",
        help_text="In its cohort: how much of the guarantee others may use while it is idle. Empty: all of it.",
        inputmode="numeric",
    )
    about = forms.text_area_field(
        "Description", help_text="What the pool is for; everybody who sees it reads it.", rows=2
    )
    maintenance = forms.checkbox_field("In maintenance", help_text="Only osmo-admin may submit. What runs goes on.")
    description = forms.text_field("Why", help_text=REASON_HELP)


class CreatePoolForm(PoolConfigForm):
    """A new pool."""

    field_order = ("name", "backend")
    name = forms.text_field("Name", help_text="Lower-case letters, digits and single hyphens, a letter first.")
    backend = forms.choice_field("Backend", help_text="Where its work runs.")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        names = Backend.objects.order_by("name").values_list("name", flat=True)
        self.fields["backend"].choices = [(name, name) for name in names]  # type: ignore[attr-defined]


def pool_config_from(form: ChangeForm) -> dict[str, Any]:
    """What was typed, as the configuration's JSON; an amount left empty is left out."""
    data = form.cleaned_data
    typed = {key: data[key] for key in ("guarantee", "maximum", "weight")}
    limits = {key: data[key].strip() for key in ("borrowing_limit", "lending_limit")}
    body = {
        "cohort": data["cohort"].strip() or None,
        **{key: _parse_number(text) if text else None for key, text in limits.items()},
        "description": data["about"],
        "enable_maintenance": data["maintenance"],
        "resources": {"gpu": {key: _parse_number(text) for key, text in typed.items() if text}},
    }
    return body | {"backend": data["backend"]} if "backend" in data else body


def _parse_number(text: str) -> int | str:
    """The number that was typed, or the text for the service to refuse with its sentence."""
    try:
        return int(text)
    except ValueError:
        return text


@dataclass(slots=True)
class CreatePoolFlow(PoolTreeFlow):
    """A pool that is not there, or one that comes back."""

    form_class: ClassVar[type[ChangeForm]] = CreatePoolForm

    def words(self, form: ChangeForm) -> FlowLabels:
        return FlowLabels("Create a pool", f"Create {form.data.get('name', '')}")

    def root_name(self, form: ChangeForm) -> str:
        return str(form.data.get("name", "")).strip()

    def initial(self) -> dict[str, Any]:
        return {"guarantee": "0", "maximum": "-1", "weight": "1"}

    def execute(self, form: ChangeForm, *, version: int | None) -> PoolResult:
        name, why = form.cleaned_data["name"], form.cleaned_data["description"]
        with change(actor=self.actor, description=why):
            lock_configuration()  # a put replaces what is there; this page must never do that
            if Pool.objects.filter(name=name).exists():
                sentence = f"Pool {name} exists already. Configure it on its own page (archived ones too)."
                raise Conflict(sentence, [Violation("name", "name_taken", sentence)])
            return put_pool(actor=self.actor, name=name, body=pool_config_from(form), description=why)

    def effect_messages(
        self, nodes: tuple[NodeEffect, ...], remaining: list[Reservation], result: Any
    ) -> tuple[str, ...]:
        name = result.row.name
        return (
            f"{name} and its roles osmo-{name}-admin and osmo-{name}-user are made. Give them to people afterwards.",
        )

    def success_message(self, form: ChangeForm, result: Any) -> str:
        return f"Pool {result.row.name} is there. Now cut it into slices, and give people its roles."


@dataclass(slots=True)
class ConfigurePoolFlow(PoolTreeFlow):
    """Another guarantee, maximum, weight, description, or maintenance; or an archived pool comes back."""

    form_class: ClassVar[type[ChangeForm]] = PoolConfigForm

    def words(self, form: ChangeForm) -> FlowLabels:
        if self.root.archived:
            return FlowLabels(f"Bring {self.root.name} back", f"Bring {self.root.name} back")
        return FlowLabels(f"Configure {self.root.name}", "Save the configuration")

    def version(self) -> int | None:
        return self.root.version

    def dry_run(self, form: ChangeForm, operation: Callable[[], object]) -> dict[str, Any]:
        name = self.root_name(form)
        return effect_with_debts(operation, read_state=lambda: read_pool_tree(name), actor=self.actor)

    def initial(self) -> dict[str, Any]:
        root = self.root
        return {
            "guarantee": root.effective_guarantee,
            "maximum": root.effective_maximum,
            "weight": 1 if root.weight is None else root.weight,
            "cohort": root.cohort.name if root.cohort else "",
            "borrowing_limit": root.borrowing_limit,
            "lending_limit": root.lending_limit,
            "about": root.description,
            "maintenance": root.enable_maintenance,
        }

    def execute(self, form: ChangeForm, *, version: int | None) -> PoolResult:
        common = {
            "actor": self.actor,
            "name": self.root.name,
            "description": form.cleaned_data["description"],
            "expected_version": version,
        }
        if self.root.archived:
            return put_pool(**common, body=editable_body(pool_settings_of(self.root)) | pool_config_from(form))
        return patch_pool(**common, patch=pool_config_from(form))

    def effect_messages(
        self, nodes: tuple[NodeEffect, ...], remaining: list[Reservation], result: Any
    ) -> tuple[str, ...]:
        told = list(consequence_messages(nodes))
        if result.reactivated:
            told.append(f"{self.root.name} takes work again.")
        if result.row.enable_maintenance and not self.root.enable_maintenance:
            told.append("Maintenance begins: only osmo-admin may submit, what runs goes on.")
        if self.root.enable_maintenance and not result.row.enable_maintenance:
            told.append("Maintenance ends: everybody with a role may submit again.")
        return tuple(told)

    def success_message(self, form: ChangeForm, result: Any) -> str:
        return f"The configuration of {result.row.name} was saved."


def create_pool_page(admin: PolicyAdmin, request: HttpRequest) -> HttpResponse:
    """The pages that make a pool."""
    require_platform(actor_of(request), Permission.POOL_CONFIGURE)
    return CreatePoolFlow(admin, request, actor_of(request), None).respond()


def configure_pool_page(admin: PolicyAdmin, request: HttpRequest, pool: str) -> HttpResponse:
    """The pages that configure a pool."""
    return ConfigurePoolFlow(admin, request, actor_of(request), _configurable_root(request, pool)).respond()


def archive_pool_page(admin: PolicyAdmin, request: HttpRequest, pool: str) -> HttpResponse:
    """Ask, then remove a pool: archived if it ever had slices or work, gone otherwise."""
    root = _configurable_root(request, pool)
    form = forms.ServiceForm(forms.submitted_data(request))
    back = reverse("admin:pools_pool_change", args=[root.name])
    if request.method == "POST":
        version = request.POST.get("version", "")
        try:
            left = delete_pool(
                actor=actor_of(request),
                name=root.name,
                expected_version=int(version) if version.isascii() and version.isdigit() else None,
            )
        except DomainError as refusal:
            form.add_errors(refusal)
        else:
            admin.show_success(
                request, f"Pool {root.name} is {'archived; it can be brought back' if left else 'gone'}."
            )
            return HttpResponseRedirect(back if left else reverse("admin:index"))
    return admin.render_form_page(
        request,
        form,
        title=f"Archive {root.name}",
        button=f"Archive {root.name}",
        crumbs=[("Pools", reverse("admin:index")), (root.name, back)],
        danger=True,
        extra={"version": root.version},
        lead=f"{root.name} takes no more work and leaves the lists; its archived slices and its history stay, and it "
        "can be brought back. It must have no slices and no live work. A pool that never had any is removed for good.",
    )


def _configurable_root(request: HttpRequest, pool: str) -> Pool:
    actor = actor_of(request)
    root = get_visible_root(actor, pool)
    require_permission(actor, Permission.POOL_CONFIGURE, pool)
    return root
