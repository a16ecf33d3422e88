"""Creating, configuring and deleting cohorts in the browser: form, effect on the whole tree, confirmation.

The form shows the subtree's total during input, because the quotas of the cohorts and pools below already count; the
common mistake is to enter their sum again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Generic

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from pools.admin.base import Breadcrumbs, PolicyAdmin, actor_of
from pools.admin.configuration.cohort_forms import (
    CohortForm,
    CreateCohortForm,
    DeleteCohortForm,
    format_quota_line,
)
from pools.admin.confirm_flow import Change, ConfirmFlow, ResultT, typed_input
from pools.admin.effect_tables import changed_fields
from pools.admin.git_ownership import owned_reason
from pools.admin.live_notes import total_of_subtree
from pools.domain.changes.cohorts import CreateCohort, DeleteCohort, PutCohort
from pools.domain.numbers import TREE_NUMBERS
from pools.domain.people.roles import Actor
from pools.domain.quota.forest import cohort_key
from pools.domain.quota.rules import QuotaRow
from pools.domain.quota.stored_quotas import rows_from_stored
from pools.domain.values.amounts import DEFAULT_FLAVOR, GPU, NO_LIMIT, UNLIMITED
from pools.models import Cohort
from pools.permissions import require_platform
from pools.representations.cohort import cohort_body
from pools.selectors.quotas.quota_tree import read_quota_view
from pools.services.changes.dry_run import EffectAnswer, warnings_of
from pools.services.changes.seen_state import mark_of
from pools.services.configuration.cohort_effects import effect_on_cohort
from pools.services.configuration.cohorts import CohortResult, create_cohort, delete_cohort, get_cohort, put_cohort

COMPARED_NUMBERS = ("subtree_quota", "available", "potential_available", "borrowed", "lent", "debt")


@dataclass(frozen=True, slots=True, kw_only=True)
class CohortPreview(Generic[ResultT]):
    """The preview of a change of the cohort `name`; `cohort` is None if the change creates it."""

    form_template: ClassVar[str] = "osmo/change_form.html"
    effect_template: ClassVar[str] = "osmo/cohort_effect.html"

    actor: Actor
    cohort: Cohort | None
    name: str

    def form_context(self) -> dict[str, Any]:
        """The total of the subtree, the numbers that it adds up, and the names to choose a parent from."""
        names, below = list(Cohort.objects.order_by("name").values_list("name", flat=True)), self._children()
        return {"live_note": total_of_subtree(each["gpus"] for each in below), "below": below, "names": names}

    def dry_run(self, operation: Callable[[], object]) -> EffectAnswer:
        """The effect on every node of the cohort's tree."""
        return effect_on_cohort(self.actor, self.name, operation)

    def effect_context(self, effect: EffectAnswer, result: ResultT) -> dict[str, Any]:
        """The nodes whose numbers change."""
        nodes = _changed_nodes(effect["before"], effect["after"])
        return {
            "changed_nodes": nodes,
            "warnings": warnings_of(result),
            "fields": changed_fields(effect["changes"], is_new=self.cohort is None),
            "is_new": self.cohort is None,
            "is_unchanged": not nodes and not effect["changes"],
        }

    def current_state(self) -> dict[str, Any] | None:
        """The cohort as the API shows it."""
        row = Cohort.objects.filter(name=self.name).first()
        return {**cohort_body(row)} if row else None

    def fingerprint(self, state: dict[str, Any] | None) -> str:
        """The mark of the nodes right below; the version of the cohort says the rest."""
        return mark_of(state and [state["cohorts"], state["pools"]])

    def _children(self) -> list[dict[str, Any]]:
        """The GPUs that each cohort and pool right below adds to the subtree; -1 where a child is unlimited."""
        if self.cohort is None:
            return []
        view = read_quota_view(self.actor, root=self.cohort.name)
        column, key = view.tree.columns[GPU], cohort_key(self.cohort.name)
        children = []
        for node in view.nodes:
            if node.parent == key and view.tree.is_active(node.key):
                gpus = column.visible[view.tree.index[node.key]]
                children.append({"name": node.name, "kind": node.kind, "gpus": NO_LIMIT if gpus == UNLIMITED else gpus})
        return children


def create_cohort_page(admin: PolicyAdmin, request: HttpRequest) -> HttpResponse:
    """The pages that create a cohort."""
    actor = actor_of(request)
    require_platform(actor)
    name = typed_input(request).get("name", "").strip()
    change = Change(
        title="Create a cohort",
        button=f"Create {name}",
        breadcrumbs=_breadcrumbs(None),
        form_class=partial(CreateCohortForm, CreateCohort, {"name": name}),
        initial={"nominal": "0", "weight": "1"},
        preview=CohortPreview(actor=actor, cohort=None, name=name),
        service=create_cohort,
        success_message=f"Cohort {name} was saved.",
        success_url=_saved_url,
    )
    return ConfirmFlow(admin, request, change).respond()


def configure_cohort_page(admin: PolicyAdmin, request: HttpRequest, name: str) -> HttpResponse:
    """The pages that configure a cohort."""
    actor = actor_of(request)
    require_platform(actor)
    cohort = get_cohort(name)
    change = Change(
        title=f"Configure {cohort.name}",
        button="Save the cohort",
        unavailable_reason=owned_reason(PutCohort, cohort.name),
        breadcrumbs=_breadcrumbs(cohort),
        form_class=partial(CohortForm, PutCohort, {"name": cohort.name}),
        initial=cohort_form_values(cohort),
        version=cohort.version,
        preview=CohortPreview(actor=actor, cohort=cohort, name=cohort.name),
        service=put_cohort,
        success_message=f"Cohort {cohort.name} was saved.",
        success_url=_node_url(cohort.name),
    )
    return ConfirmFlow(admin, request, change).respond()


def delete_cohort_page(admin: PolicyAdmin, request: HttpRequest, name: str) -> HttpResponse:
    """The pages that delete a cohort, with its quota."""
    actor = actor_of(request)
    require_platform(actor)
    cohort = get_cohort(name)
    change = Change(
        title=f"Delete {cohort.name}",
        button=f"Delete {cohort.name}",
        unavailable_reason=owned_reason(DeleteCohort, cohort.name),
        danger=True,
        breadcrumbs=_breadcrumbs(cohort),
        form_class=partial(DeleteCohortForm, DeleteCohort, {"name": cohort.name}),
        version=cohort.version,
        preview=CohortPreview(actor=actor, cohort=cohort, name=cohort.name),
        service=delete_cohort,
        success_message=f"Cohort {cohort.name} was deleted.",
        success_url=reverse("admin:pools_cohort_changelist"),
    )
    return ConfirmFlow(admin, request, change).respond()


def _saved_url(result: CohortResult) -> str:
    return _node_url(result.row.name)


def _node_url(name: str) -> str:
    return reverse("admin:pools_quota_node", args=["cohort", name])


def _breadcrumbs(cohort: Cohort | None) -> Breadcrumbs:
    tree = ("Quota tree", reverse("admin:pools_cohort_changelist"))
    return [tree, (cohort.name, _node_url(cohort.name))] if cohort else [tree]


def cohort_form_values(cohort: Cohort) -> dict[str, Any]:
    """A cohort as the values of its form."""
    rows = {f"{row.flavor}/{row.resource}": row for row in rows_from_stored(cohort.quotas)}
    gpus = rows.pop(GPU, QuotaRow("", DEFAULT_FLAVOR, "gpu", 0))
    return {
        "parent": cohort.parent.name if cohort.parent else "",
        **gpus.amounts,
        "weight": f"{cohort.weight.normalize():f}",
        "others": "\n".join(format_quota_line(row) for row in rows.values()),
    }


def _changed_nodes(before: Any, after: Any) -> list[dict[str, Any]]:
    """The nodes whose numbers would change, each with its old and new numbers."""
    old = {(node["kind"], node["name"]): node for node in (before or {}).get("nodes", ())}
    new = {(node["kind"], node["name"]): node for node in (after or {}).get("nodes", ())}
    changed = []
    for kind, name in [*old, *(key for key in new if key not in old)]:
        was, becomes = _quotas_by_resource(old.get((kind, name))), _quotas_by_resource(new.get((kind, name)))
        for resource in sorted({*was, *becomes}):
            numbers = [
                {
                    "number": TREE_NUMBERS[number],
                    "before": was.get(resource, {}).get(number),
                    "after": becomes.get(resource, {}).get(number),
                }
                for number in COMPARED_NUMBERS
            ]
            if any(number["before"] != number["after"] for number in numbers):
                changed.append({"kind": kind, "name": name, "resource": resource, "numbers": numbers})
    return changed


def _quotas_by_resource(node: Any) -> dict[str, Any]:
    return {f"{row['flavor']}/{row['resource']}": row for row in node["quotas"]} if node else {}
