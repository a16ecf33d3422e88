"""Making, configuring and archiving top-level pools in the browser, for osmo-admin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from pools.admin import forms
from pools.admin.confirm_flow import WHY_HELP, ChangeForm, Words
from pools.admin.policy import PolicyAdmin, actor_of
from pools.admin.tree_changes import TreeChange
from pools.domain.effects import NodeEffect, consequences
from pools.domain.errors import Conflict, DomainError, Violation
from pools.domain.pool_config import editable
from pools.domain.roles import Action
from pools.locking import lock_configuration
from pools.models import Backend, Pool, Reservation
from pools.permissions import require, require_house, visible_root
from pools.representations.pool import settings_of
from pools.services.cohort_effects import effect_with_debts
from pools.services.dry_run import tree_of
from pools.services.pool_writing import PoolResult
from pools.services.pools import delete_pool, patch_pool, put_pool
from pools.transactions import change

GPU = "resources.gpu"
PATHS = {
    f"{GPU}.guarantee": "guarantee",
    f"{GPU}.maximum": "maximum",
    f"{GPU}.weight": "weight",
    "description": "about",
}
AMOUNT_HELP = "Whole GPUs; -1 for no limit."


class ConfigForm(ChangeForm):
    """What of a pool's configuration is edited here; the rest (platforms, timeouts, …) stays as it is."""

    paths = PATHS
    guarantee = forms.text("Guarantee in GPUs", help_text=f"{AMOUNT_HELP} Slices are cut from it.", inputmode="numeric")
    maximum = forms.text(
        "Maximum in GPUs",
        help_text=f"{AMOUNT_HELP} LOW work may go over the guarantee up to here.",
        inputmode="numeric",
    )
    weight = forms.text("Weight", help_text="Share of what nobody uses, against other pools.", inputmode="numeric")
    cohort = forms.text(
        "Cohort", help_text="What it shares with others; empty for none. A new name makes a new cohort."
    )
    borrowing_limit = forms.text(
        "Borrowing limit in GPUs",
        help_text="In its cohort: how far LOW work may go beyond the guarantee. Empty: no limit.",
        inputmode="numeric",
    )
    lending_limit = forms.text(
        "Lending limit in GPUs",
        help_text="In its cohort: how much of the guarantee others may use while it is idle. Empty: all of it.",
        inputmode="numeric",
    )
    about = forms.area("Description", help_text="What the pool is for; everybody who sees it reads it.", rows=2)
    maintenance = forms.tick("In maintenance", help_text="Only osmo-admin may submit. What runs goes on.")
    description = forms.text("Why", help_text=WHY_HELP)


class CreateForm(ConfigForm):
    """A new pool."""

    field_order = ("name", "backend")
    name = forms.text("Name", help_text="Lower-case letters, digits and single hyphens, a letter first.")
    backend = forms.choice("Backend", help_text="Where its work runs.")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        names = Backend.objects.order_by("name").values_list("name", flat=True)
        self.fields["backend"].choices = [(name, name) for name in names]  # type: ignore[attr-defined]


def body_of(form: ChangeForm) -> dict[str, Any]:
    """What was typed, as the configuration's JSON; an amount left empty is left out."""
    data = form.cleaned_data
    typed = {key: data[key] for key in ("guarantee", "maximum", "weight")}
    limits = {key: data[key].strip() for key in ("borrowing_limit", "lending_limit")}
    body = {
        "cohort": data["cohort"].strip() or None,
        **{key: _whole(text) if text else None for key, text in limits.items()},
        "description": data["about"],
        "enable_maintenance": data["maintenance"],
        "resources": {"gpu": {key: _whole(text) for key, text in typed.items() if text}},
    }
    return body | {"backend": data["backend"]} if "backend" in data else body


def _whole(text: str) -> int | str:
    """The number that was typed, or the text for the service to refuse with its sentence."""
    try:
        return int(text)
    except ValueError:
        return text


@dataclass(slots=True)
class Create(TreeChange):
    """A pool that is not there, or one that comes back."""

    form_class: ClassVar[type[ChangeForm]] = CreateForm

    def words(self, form: ChangeForm) -> Words:
        return Words("Create a pool", f"Create {form.data.get('name', '')}")

    def root_name(self, form: ChangeForm) -> str:
        return str(form.data.get("name", "")).strip()

    def initial(self) -> dict[str, Any]:
        return {"guarantee": "0", "maximum": "-1", "weight": "1"}

    def act(self, form: ChangeForm, *, version: int | None) -> PoolResult:
        name, why = form.cleaned_data["name"], form.cleaned_data["description"]
        with change(actor=self.actor, description=why):
            lock_configuration()  # a put replaces what is there; this page must never do that
            if Pool.objects.filter(name=name).exists():
                sentence = f"Pool {name} exists already. Configure it on its own page (archived ones too)."
                raise Conflict(sentence, [Violation("name", "name_taken", sentence)])
            return put_pool(actor=self.actor, name=name, body=body_of(form), description=why)

    def sentences(self, nodes: tuple[NodeEffect, ...], staying: list[Reservation], result: Any) -> tuple[str, ...]:
        name = result.row.name
        return (
            f"{name} and its roles osmo-{name}-admin and osmo-{name}-user are made. Give them to people afterwards.",
        )

    def told(self, form: ChangeForm, result: Any) -> str:
        return f"Pool {result.row.name} is there. Now cut it into slices, and give people its roles."


@dataclass(slots=True)
class Configure(TreeChange):
    """Another guarantee, maximum, weight, description, or maintenance; or an archived pool comes back."""

    form_class: ClassVar[type[ChangeForm]] = ConfigForm

    def words(self, form: ChangeForm) -> Words:
        if self.root.archived:
            return Words(f"Bring {self.root.name} back", f"Bring {self.root.name} back")
        return Words(f"Configure {self.root.name}", "Save the configuration")

    def version(self) -> int | None:
        return self.root.version

    def tried(self, form: ChangeForm, deed: Callable[[], object]) -> dict[str, Any]:
        name = self.root_name(form)
        return effect_with_debts(deed, read=lambda: tree_of(name), actor=self.actor)

    def initial(self) -> dict[str, Any]:
        root = self.root
        return {
            "guarantee": root.guaranteed,
            "maximum": root.limit,
            "weight": 1 if root.weight is None else root.weight,
            "cohort": root.cohort.name if root.cohort else "",
            "borrowing_limit": root.borrowing_limit,
            "lending_limit": root.lending_limit,
            "about": root.description,
            "maintenance": root.enable_maintenance,
        }

    def act(self, form: ChangeForm, *, version: int | None) -> PoolResult:
        common = {
            "actor": self.actor,
            "name": self.root.name,
            "description": form.cleaned_data["description"],
            "expected_version": version,
        }
        if self.root.archived:
            return put_pool(**common, body=editable(settings_of(self.root)) | body_of(form))
        return patch_pool(**common, patch=body_of(form))

    def sentences(self, nodes: tuple[NodeEffect, ...], staying: list[Reservation], result: Any) -> tuple[str, ...]:
        told = list(consequences(nodes))
        if result.reactivated:
            told.append(f"{self.root.name} takes work again.")
        if result.row.enable_maintenance and not self.root.enable_maintenance:
            told.append("Maintenance begins: only osmo-admin may submit, what runs goes on.")
        if self.root.enable_maintenance and not result.row.enable_maintenance:
            told.append("Maintenance ends: everybody with a role may submit again.")
        return tuple(told)

    def told(self, form: ChangeForm, result: Any) -> str:
        return f"The configuration of {result.row.name} was saved."


def create_pool(admin: PolicyAdmin, request: HttpRequest) -> HttpResponse:
    """The pages that make a pool."""
    require_house(actor_of(request), Action.POOL_CONFIGURE)
    return Create(admin, request, actor_of(request), None).answer()


def edit_pool(admin: PolicyAdmin, request: HttpRequest, pool: str) -> HttpResponse:
    """The pages that configure a pool."""
    return Configure(admin, request, actor_of(request), _root(request, pool)).answer()


def archive_pool(admin: PolicyAdmin, request: HttpRequest, pool: str) -> HttpResponse:
    """Ask, then remove a pool: archived if it ever had slices or work, gone otherwise."""
    root = _root(request, pool)
    form = forms.HouseForm(forms.sent(request))
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
            form.blame(refusal)
        else:
            admin.say(request, f"Pool {root.name} is {'archived; it can be brought back' if left else 'gone'}.")
            return HttpResponseRedirect(back if left else reverse("admin:index"))
    return admin.form_page(
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


def _root(request: HttpRequest, pool: str) -> Pool:
    actor = actor_of(request)
    root = visible_root(actor, pool)
    require(actor, Action.POOL_CONFIGURE, pool)
    return root
