"""Making, changing and removing cohorts in the browser: form, effect on the whole tree, confirmation.

The form says what the subtree will own together while one types, because what is below a cohort counts by itself: to
enter its sum again is the common mistake.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from pools.admin.cohort_forms import CohortForm, CreateForm, DeleteForm, body_of, line_of
from pools.admin.confirm_flow import ChangeForm, Walk, Words
from pools.admin.forms import script
from pools.admin.policy import Crumbs, PolicyAdmin, actor_of
from pools.domain.amounts import GPU, UNLIMITED
from pools.domain.cohort_config import from_stored
from pools.domain.errors import Conflict, Violation
from pools.domain.quota.forest import cohort_key
from pools.domain.quota.rules import QuotaRow
from pools.locking import lock_configuration
from pools.models import Cohort
from pools.permissions import require_house
from pools.selectors.quota_tree import quota_view
from pools.services.cohort_effects import effect_on_cohort
from pools.services.cohorts import CohortResult, delete_cohort, get_cohort, put_cohort
from pools.transactions import change

NUMBERS = ("subtree_quota", "available", "potential_available", "borrowed", "lent", "debt")


@dataclass(slots=True)
class Configure(Walk):
    """Another parent, quota, limits or weight."""

    row: Cohort | None

    form_class: ClassVar[type[ChangeForm]] = CohortForm
    form_template: ClassVar[str] = "osmo/cohort_form.html"
    effect_template: ClassVar[str] = "osmo/cohort_effect.html"

    # --- what a subclass may say otherwise ---
    def words(self, form: ChangeForm) -> Words:
        return Words(f"Configure {self.name(form)}", "Save the cohort")

    def name(self, form: ChangeForm) -> str:
        """Whom it is about."""
        return self.row.name if self.row else str(form.data.get("name", "")).strip()

    def initial(self) -> dict[str, Any]:
        if self.row is None:
            return {"nominal": "0", "weight": "1"}
        rows = {f"{row.flavor}/{row.resource}": row for row in from_stored(self.row.quotas)}
        gpus = rows.pop(GPU, QuotaRow("", "default", "gpu", 0))
        return {
            "parent": self.row.parent.name if self.row.parent else "",
            "nominal": gpus.nominal,
            "borrowing_limit": gpus.borrowing_limit,
            "lending_limit": gpus.lending_limit,
            "weight": f"{self.row.weight.normalize():f}",
            "others": "\n".join(line_of(row) for row in rows.values()),
        }

    def act(self, form: ChangeForm, *, version: int | None) -> CohortResult | None:
        return put_cohort(
            actor=self.actor,
            name=self.name(form),
            body=body_of(form),
            description=form.cleaned_data["description"],
            expected_version=version,
        )

    def told(self, form: ChangeForm, result: Any) -> str:
        return f"Cohort {self.name(form)} was saved."

    def after(self, form: ChangeForm) -> str:
        return reverse("admin:pools_quota_node", args=["cohort", self.name(form)])

    # --- the same for all of them ---
    def above(self) -> Crumbs:
        cohort = (
            [(self.row.name, reverse("admin:pools_quota_node", args=["cohort", self.row.name]))] if self.row else []
        )
        return [("Quota tree", reverse("admin:pools_cohort_changelist")), *cohort]

    def version(self) -> int | None:
        return self.row.version if self.row else None

    def asked(self) -> dict[str, Any]:
        names = list(Cohort.objects.order_by("name").values_list("name", flat=True))
        return {"script": script("quota-form"), "below": self._below(), "names": names}

    def tried(self, form: ChangeForm, deed: Callable[[], object]) -> dict[str, Any]:
        return effect_on_cohort(self.actor, self.name(form), deed)

    def shown(self, effect: dict[str, Any], result: Any) -> dict[str, Any]:
        return {"moved": _moved(effect["before"], effect["after"]), "warnings": result.warnings if result else ()}

    def _below(self) -> list[dict[str, Any]]:
        """What the cohorts and pools right below bring to the subtree, in GPUs; -1 where that has no end."""
        if self.row is None:
            return []
        view = quota_view(self.actor, root=self.row.name)
        column, key = view.tree.columns[GPU], cohort_key(self.row.name)
        found = []
        for node in view.nodes:
            if node.parent == key and view.tree.active(node.key):
                brings = column.visible[view.tree.index[node.key]]
                found.append({"name": node.name, "kind": node.kind, "gpus": -1 if brings == UNLIMITED else brings})
        return found


@dataclass(slots=True)
class Create(Configure):
    """A name that is not there, or is only named."""

    form_class: ClassVar[type[ChangeForm]] = CreateForm

    def words(self, form: ChangeForm) -> Words:
        return Words("Create a cohort", f"Create {self.name(form)}")

    def act(self, form: ChangeForm, *, version: int | None) -> CohortResult | None:
        name = self.name(form)
        with change(actor=self.actor, description=form.cleaned_data["description"]):
            lock_configuration()  # a put replaces what is there; this page must never do that
            if Cohort.objects.filter(name=name, explicit=True).exists():
                sentence = f"Cohort {name} exists already. Configure it on its own page."
                raise Conflict(sentence, [Violation("name", "name_taken", sentence)])
            return put_cohort(
                actor=self.actor, name=name, body=body_of(form), description=form.cleaned_data["description"]
            )


@dataclass(slots=True)
class Delete(Configure):
    """A cohort goes, with its quota."""

    form_class: ClassVar[type[ChangeForm]] = DeleteForm

    def words(self, form: ChangeForm) -> Words:
        return Words(f"Delete {self.name(form)}", f"Delete {self.name(form)}", danger=True)

    def initial(self) -> dict[str, Any]:
        return {}

    def act(self, form: ChangeForm, *, version: int | None) -> CohortResult | None:
        data = form.cleaned_data
        delete_cohort(
            actor=self.actor,
            name=self.name(form),
            orphan=data["orphan"],
            description=data["description"],
            expected_version=version,
        )
        return None

    def told(self, form: ChangeForm, result: Any) -> str:
        return f"Cohort {self.name(form)} is gone."

    def after(self, form: ChangeForm) -> str:
        return reverse("admin:pools_cohort_changelist")


def _moved(before: Any, after: Any) -> list[dict[str, Any]]:
    """The nodes whose numbers a change would move, each with the old and the new ones."""
    old = {(node["kind"], node["name"]): node for node in (before or {}).get("nodes", ())}
    new = {(node["kind"], node["name"]): node for node in (after or {}).get("nodes", ())}
    found = []
    for key in [*old, *(key for key in new if key not in old)]:
        was, becomes = _rows_of(old.get(key)), _rows_of(new.get(key))
        for resource in sorted({*was, *becomes}):
            a, b = was.get(resource, {}), becomes.get(resource, {})
            numbers = [{"name": name, "before": a.get(name), "after": b.get(name)} for name in NUMBERS]
            if any(number["before"] != number["after"] for number in numbers):
                found.append({"kind": key[0], "name": key[1], "resource": resource, "numbers": numbers})
    return found


def _rows_of(node: Any) -> dict[str, Any]:
    return {f"{row['flavor']}/{row['resource']}": row for row in node["quotas"]} if node else {}


def create_cohort(admin: PolicyAdmin, request: HttpRequest) -> HttpResponse:
    """The pages that make a cohort."""
    require_house(actor_of(request))
    return Create(admin, request, actor_of(request), None).answer()


def change_cohort(admin: PolicyAdmin, request: HttpRequest, name: str) -> HttpResponse:
    """The pages that configure a cohort."""
    require_house(actor_of(request))
    return Configure(admin, request, actor_of(request), get_cohort(name)).answer()


def remove_cohort(admin: PolicyAdmin, request: HttpRequest, name: str) -> HttpResponse:
    """The pages that delete a cohort."""
    require_house(actor_of(request))
    return Delete(admin, request, actor_of(request), get_cohort(name)).answer()
