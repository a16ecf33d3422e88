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

from pools.admin.base import Breadcrumbs, PolicyAdmin, actor_of
from pools.admin.cohort_forms import (
    CohortForm,
    CreateCohortForm,
    DeleteCohortForm,
    cohort_config_from,
    format_quota_line,
)
from pools.admin.confirm_flow import ChangeForm, ConfirmFlow, FlowLabels
from pools.admin.forms import script_media
from pools.domain.amounts import GPU, UNLIMITED
from pools.domain.cohort_config import rows_from_stored
from pools.domain.errors import Conflict, Violation
from pools.domain.quota.forest import cohort_key
from pools.domain.quota.rules import QuotaRow
from pools.locking import lock_configuration
from pools.models import Cohort
from pools.permissions import require_platform
from pools.selectors.quota_tree import read_quota_view
from pools.services.cohort_effects import effect_on_cohort
from pools.services.cohorts import CohortResult, delete_cohort, get_cohort, put_cohort
from pools.transactions import change

COMPARED_NUMBERS = ("subtree_quota", "available", "potential_available", "borrowed", "lent", "debt")


@dataclass(slots=True)
class ConfigureCohortFlow(ConfirmFlow):
    """Another parent, quota, limits or weight."""

    row: Cohort | None

    form_class: ClassVar[type[ChangeForm]] = CohortForm
    form_template: ClassVar[str] = "osmo/cohort_form.html"
    effect_template: ClassVar[str] = "osmo/cohort_effect.html"

    # --- what a subclass may say otherwise ---
    def words(self, form: ChangeForm) -> FlowLabels:
        return FlowLabels(f"Configure {self.name(form)}", "Save the cohort")

    def name(self, form: ChangeForm) -> str:
        """Whom it is about."""
        return self.row.name if self.row else str(form.data.get("name", "")).strip()

    def initial(self) -> dict[str, Any]:
        if self.row is None:
            return {"nominal": "0", "weight": "1"}
        rows = {f"{row.flavor}/{row.resource}": row for row in rows_from_stored(self.row.quotas)}
        gpus = rows.pop(GPU, QuotaRow("", "default", "gpu", 0))
        return {
            "parent": self.row.parent.name if self.row.parent else "",
            "nominal": gpus.nominal,
            "borrowing_limit": gpus.borrowing_limit,
            "lending_limit": gpus.lending_limit,
            "weight": f"{self.row.weight.normalize():f}",
            "others": "\n".join(format_quota_line(row) for row in rows.values()),
        }

    def execute(self, form: ChangeForm, *, version: int | None) -> CohortResult | None:
        return put_cohort(
            actor=self.actor,
            name=self.name(form),
            body=cohort_config_from(form),
            description=form.cleaned_data["description"],
            expected_version=version,
        )

    def success_message(self, form: ChangeForm, result: Any) -> str:
        return f"Cohort {self.name(form)} was saved."

    def after(self, form: ChangeForm) -> str:
        return reverse("admin:pools_quota_node", args=["cohort", self.name(form)])

    # --- the same for all of them ---
    def breadcrumbs(self) -> Breadcrumbs:
        cohort = (
            [(self.row.name, reverse("admin:pools_quota_node", args=["cohort", self.row.name]))] if self.row else []
        )
        return [("Quota tree", reverse("admin:pools_cohort_changelist")), *cohort]

    def version(self) -> int | None:
        return self.row.version if self.row else None

    def form_context(self) -> dict[str, Any]:
        names = list(Cohort.objects.order_by("name").values_list("name", flat=True))
        return {"script": script_media("quota-form"), "below": self._children(), "names": names}

    def dry_run(self, form: ChangeForm, operation: Callable[[], object]) -> dict[str, Any]:
        return effect_on_cohort(self.actor, self.name(form), operation)

    def effect_context(self, effect: dict[str, Any], result: Any) -> dict[str, Any]:
        return {
            "moved": _changed_nodes(effect["before"], effect["after"]),
            "warnings": result.warnings if result else (),
        }

    def _children(self) -> list[dict[str, Any]]:
        """What the cohorts and pools right below bring to the subtree, in GPUs; -1 where that has no end."""
        if self.row is None:
            return []
        view = read_quota_view(self.actor, root=self.row.name)
        column, key = view.tree.columns[GPU], cohort_key(self.row.name)
        found = []
        for node in view.nodes:
            if node.parent == key and view.tree.is_active(node.key):
                brings = column.visible[view.tree.index[node.key]]
                found.append({"name": node.name, "kind": node.kind, "gpus": -1 if brings == UNLIMITED else brings})
        return found


@dataclass(slots=True)
class CreateCohortFlow(ConfigureCohortFlow):
    """A name that is not there, or is only named."""

    form_class: ClassVar[type[ChangeForm]] = CreateCohortForm

    def words(self, form: ChangeForm) -> FlowLabels:
        return FlowLabels("Create a cohort", f"Create {self.name(form)}")

    def execute(self, form: ChangeForm, *, version: int | None) -> CohortResult | None:
        name = self.name(form)
        with change(actor=self.actor, description=form.cleaned_data["description"]):
            lock_configuration()  # a put replaces what is there; this page must never do that
            if Cohort.objects.filter(name=name, explicit=True).exists():
                sentence = f"Cohort {name} exists already. Configure it on its own page."
                raise Conflict(sentence, [Violation("name", "name_taken", sentence)])
            return put_cohort(
                actor=self.actor, name=name, body=cohort_config_from(form), description=form.cleaned_data["description"]
            )


@dataclass(slots=True)
class DeleteCohortFlow(ConfigureCohortFlow):
    """A cohort goes, with its quota."""

    form_class: ClassVar[type[ChangeForm]] = DeleteCohortForm

    def words(self, form: ChangeForm) -> FlowLabels:
        return FlowLabels(f"Delete {self.name(form)}", f"Delete {self.name(form)}", danger=True)

    def initial(self) -> dict[str, Any]:
        return {}

    def execute(self, form: ChangeForm, *, version: int | None) -> CohortResult | None:
        data = form.cleaned_data
        delete_cohort(
            actor=self.actor,
            name=self.name(form),
            orphan=data["orphan"],
            description=data["description"],
            expected_version=version,
        )
        return None

    def success_message(self, form: ChangeForm, result: Any) -> str:
        return f"Cohort {self.name(form)} is gone."

    def after(self, form: ChangeForm) -> str:
        return reverse("admin:pools_cohort_changelist")


def _changed_nodes(before: Any, after: Any) -> list[dict[str, Any]]:
    """The nodes whose numbers a change would move, each with the old and the new ones."""
    old = {(node["kind"], node["name"]): node for node in (before or {}).get("nodes", ())}
    new = {(node["kind"], node["name"]): node for node in (after or {}).get("nodes", ())}
    found = []
    for key in [*old, *(key for key in new if key not in old)]:
        was, becomes = _quotas_by_resource(old.get(key)), _quotas_by_resource(new.get(key))
        for resource in sorted({*was, *becomes}):
            a, b = was.get(resource, {}), becomes.get(resource, {})
            numbers = [{"name": name, "before": a.get(name), "after": b.get(name)} for name in COMPARED_NUMBERS]
            if any(number["before"] != number["after"] for number in numbers):
                found.append({"kind": key[0], "name": key[1], "resource": resource, "numbers": numbers})
    return found


def _quotas_by_resource(node: Any) -> dict[str, Any]:
    return {f"{row['flavor']}/{row['resource']}": row for row in node["quotas"]} if node else {}


def create_cohort_page(admin: PolicyAdmin, request: HttpRequest) -> HttpResponse:
    """The pages that make a cohort."""
    require_platform(actor_of(request))
    return CreateCohortFlow(admin, request, actor_of(request), None).respond()


def configure_cohort_page(admin: PolicyAdmin, request: HttpRequest, name: str) -> HttpResponse:
    """The pages that configure a cohort."""
    require_platform(actor_of(request))
    return ConfigureCohortFlow(admin, request, actor_of(request), get_cohort(name)).respond()


def delete_cohort_page(admin: PolicyAdmin, request: HttpRequest, name: str) -> HttpResponse:
    """The pages that delete a cohort."""
    require_platform(actor_of(request))
    return DeleteCohortFlow(admin, request, actor_of(request), get_cohort(name)).respond()
