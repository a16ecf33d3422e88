"""Making, changing and removing cohorts in the browser: form, effect on the whole tree, confirmation.

The form says what the subtree will own together while one types, because what is below a cohort counts by itself: to
enter its sum again is the common mistake.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from pools.admin.cohort_forms import CohortForm, CreateForm, DeleteForm, body_of, line_of
from pools.admin.confirming import ChangeForm, Refused, Words
from pools.admin.forms import script
from pools.admin.policy import PolicyAdmin, actor_of
from pools.domain.amounts import GPU, UNLIMITED
from pools.domain.cohort_config import from_stored
from pools.domain.errors import BadInput, Conflict, Stale, Violation
from pools.domain.quota_forest import cohort_key
from pools.domain.quota_rules import QuotaRow
from pools.domain.roles import Actor
from pools.locking import lock_configuration
from pools.models import Cohort
from pools.permissions import require_house
from pools.quota_view import quota_view
from pools.services.cohort_effects import effect_on_cohort
from pools.services.cohorts import CohortResult, delete_cohort, get_cohort, put_cohort
from pools.transactions import change

NUMBERS = ("subtree_quota", "available", "potential_available", "borrowed", "lent", "debt")


@dataclass(slots=True)
class Walk:
    """One request's way through form, preview and confirmation."""

    admin: PolicyAdmin
    request: HttpRequest
    actor: Actor
    row: Cohort | None

    form_class: ClassVar[type[ChangeForm]] = CohortForm

    # --- what a subclass says ---
    def words(self, form: ChangeForm) -> Words:
        """Title and button."""
        name = self.name(form)
        return Words(f"Configure {name}", "Save the cohort")

    def name(self, form: ChangeForm) -> str:
        """Whom it is about."""
        return self.row.name if self.row else str(form.data.get("name", "")).strip()

    def initial(self) -> dict[str, Any]:
        """What the form begins with."""
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
        """Do it, in earnest or inside the dry run."""
        return put_cohort(
            actor=self.actor,
            name=self.name(form),
            body=body_of(form),
            description=form.cleaned_data["description"],
            expected_version=version,
        )

    def told(self, form: ChangeForm) -> str:
        """The sentence afterwards."""
        return f"Cohort {self.name(form)} was saved."

    def after(self, form: ChangeForm) -> str:
        """Where to go afterwards."""
        return reverse("admin:pools_quota_node", args=["cohort", self.name(form)])

    # --- the walk ---
    def answer(self) -> HttpResponse:
        """The page that this request asks for."""
        if self.request.method != "POST":
            return self._ask(self.form_class(initial=self.initial()))
        form, step = self.form_class(self.request.POST), self.request.POST.get("step")
        if step == "edit":
            return self._ask(self.form_class(initial=self.request.POST.dict()))
        if not form.is_valid():
            return self._ask(form)
        return self._confirm(form) if step == "confirm" else self._preview(form)

    def _ask(self, form: ChangeForm) -> HttpResponse:
        return self._page(
            "osmo/cohort_form.html",
            form,
            status=400 if form.errors else 200,
            script=script("quota-form"),
            below=self._below(),
            names=list(Cohort.objects.order_by("name").values_list("name", flat=True)),
        )

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

    def _preview(self, form: ChangeForm, notice: str = "") -> HttpResponse:
        results: list[CohortResult | None] = []
        try:
            effect = effect_on_cohort(self.actor, self.name(form), lambda: results.append(self.act(form, version=None)))
        except Refused as refusal:
            form.blame(refusal)
            return self._ask(form)
        if effect["violations"]:
            found = [Violation(each["path"], each["code"], each["message"]) for each in effect["violations"]]
            form.blame(BadInput.of(found))
            return self._ask(form)
        seen = {"seen": "", "version": self.row.version if self.row else ""}
        return self._page(
            "osmo/cohort_effect.html",
            form,
            notice=notice,
            effect=effect,
            moved=_moved(effect["before"], effect["after"]),
            warnings=[warning for result in results if result for warning in result.warnings],
            hidden={name: form.data[name] for name in form.fields if name in form.data} | seen,
        )

    def _confirm(self, form: ChangeForm) -> HttpResponse:
        try:
            result = self.act(form, version=form.cleaned_data["version"])
        except Stale:
            return self._preview(form, notice="It was changed meanwhile. This is the effect as of now.")
        except Refused as refusal:
            form.blame(refusal)
            return self._ask(form)
        self.admin.say(self.request, " ".join([self.told(form), *(result.warnings if result else ())]))
        return HttpResponseRedirect(self.after(form))

    def _page(self, template: str, form: ChangeForm, *, status: int = 200, **context: Any) -> HttpResponse:
        words, home = self.words(form), reverse("admin:pools_cohort_changelist")
        back = reverse("admin:pools_quota_node", args=["cohort", self.row.name]) if self.row else home
        above = [(self.row.name, back)] if self.row else []
        return self.admin.page(
            self.request,
            template,
            title=words.title,
            crumbs=[("Quota tree", home), *above],
            status=status,
            form=form,
            words=words,
            back=back,
            **context,
        )


@dataclass(slots=True)
class Create(Walk):
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
class Delete(Walk):
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

    def told(self, form: ChangeForm) -> str:
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
    return Walk(admin, request, actor_of(request), get_cohort(name)).answer()


def remove_cohort(admin: PolicyAdmin, request: HttpRequest, name: str) -> HttpResponse:
    """The pages that delete a cohort."""
    require_house(actor_of(request))
    return Delete(admin, request, actor_of(request), get_cohort(name)).answer()
