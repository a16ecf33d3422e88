"""Every change of promises in the browser walks the same way: form, preview of the effect, confirmation, message.

The preview is a dry run of the very service that the confirmation calls. The confirmation carries what the preview was
made from; if somebody changed it meanwhile, it becomes a new preview instead of a change. A refusal goes back to the
form, with everything that was typed still in it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from pools.admin import forms
from pools.admin.base import Breadcrumbs, PolicyAdmin
from pools.domain.errors import BadInput, Busy, Conflict, Stale, Violation
from pools.domain.roles import Actor

REASON_HELP = "Optional. Stands in the audit trail beside your name."
REFUSALS = (BadInput, Conflict, Busy)
_CHANGED_MEANWHILE = "It was changed meanwhile. This is the effect as of now."


class ServiceResult(Protocol):
    """What a ledger service answers."""

    @property
    def warnings(self) -> tuple[str, ...]: ...


class ChangeForm(forms.ServiceForm):
    """Carries, hidden, what was seen when the effect was shown."""

    seen = forms.hidden_text_field()
    version = forms.hidden_number_field()


@dataclass(frozen=True, slots=True)
class FlowLabels:
    """What the pages of one change say."""

    title: str
    button: str
    danger: bool = False


@dataclass(slots=True)
class ConfirmFlow(ABC):
    """One request's walk. A subclass says what is done (`act`), what is shown before it and what is told after it."""

    admin: PolicyAdmin
    request: HttpRequest
    actor: Actor

    form_class: ClassVar[type[ChangeForm]] = ChangeForm
    form_template: ClassVar[str]
    effect_template: ClassVar[str]

    # --- what a subclass says ---
    @abstractmethod
    def words(self, form: ChangeForm) -> FlowLabels:
        """Title and button."""

    @abstractmethod
    def breadcrumbs(self) -> Breadcrumbs:
        """The pages above, the last of which is the way back."""

    def initial(self) -> dict[str, Any]:
        """What the form begins with."""
        return {}

    def form_context(self) -> dict[str, Any]:
        """What the form's page shows beside the form."""
        return {}

    def version(self) -> int | None:
        """The version of what is changed, as the preview saw it; None for what does not exist yet."""
        return None

    @abstractmethod
    def execute(self, form: ChangeForm, *, version: int | None) -> ServiceResult | None:
        """Do it, in earnest or inside the dry run."""

    @abstractmethod
    def dry_run(self, form: ChangeForm, operation: Callable[[], object]) -> dict[str, Any]:
        """The dry run of `operation`."""

    @abstractmethod
    def effect_context(self, effect: dict[str, Any], result: Any) -> dict[str, Any]:
        """What the preview shows beside the effect."""

    def fingerprint(self, state: dict[str, Any] | None) -> str:
        """Which state a preview was made from, where the version alone does not tell."""
        return ""

    def current_state(self) -> dict[str, Any] | None:
        """What `fingerprint` is taken of, now."""
        return None

    @abstractmethod
    def success_message(self, form: ChangeForm, result: Any) -> str:
        """The sentence afterwards."""

    @abstractmethod
    def after(self, form: ChangeForm) -> str:
        """Where to go afterwards."""

    # --- the walk ---
    def respond(self) -> HttpResponse:
        """The page that this request asks for."""
        if self.request.method != "POST":
            return self._form_page(self.form_class(initial=self.initial()))
        form, step = self.form_class(self.request.POST), self.request.POST.get("step")
        if step == "edit":
            return self._form_page(self.form_class(initial=self.request.POST.dict()))
        if not form.is_valid():
            return self._form_page(form)
        return self._confirm(form) if step == "confirm" else self._preview_page(form)

    def _form_page(self, form: ChangeForm) -> HttpResponse:
        return self._render(self.form_template, form, status=400 if form.errors else 200, **self.form_context())

    def _preview_page(self, form: ChangeForm, notice: str = "") -> HttpResponse:
        results: list[ServiceResult | None] = []
        try:
            effect = self.dry_run(form, lambda: results.append(self.execute(form, version=None)))
        except REFUSALS as refusal:
            form.add_errors(refusal)
            return self._form_page(form)
        if effect["violations"]:
            found = [Violation(each["path"], each["code"], each["message"]) for each in effect["violations"]]
            form.add_errors(BadInput.of(found))
            return self._form_page(form)
        version = self.version()
        seen = {"seen": self.fingerprint(effect["before"]), "version": "" if version is None else version}
        return self._render(
            self.effect_template,
            form,
            notice=notice,
            effect=effect,
            hidden={name: form.data[name] for name in form.fields if name in form.data} | seen,
            **self.effect_context(effect, results[0]),
        )

    def _confirm(self, form: ChangeForm) -> HttpResponse:
        if form.cleaned_data["seen"] != self.fingerprint(self.current_state()):
            return self._preview_page(form, notice=_CHANGED_MEANWHILE)
        try:
            result = self.execute(form, version=form.cleaned_data["version"])
        except Stale:
            return self._preview_page(form, notice=_CHANGED_MEANWHILE)
        except REFUSALS as refusal:
            form.add_errors(refusal)
            return self._form_page(form)
        self.admin.show_success(
            self.request, " ".join([self.success_message(form, result), *(result.warnings if result else ())])
        )
        return HttpResponseRedirect(self.after(form))

    def _render(self, template: str, form: ChangeForm, *, status: int = 200, **context: Any) -> HttpResponse:
        words, crumbs = self.words(form), self.breadcrumbs()
        return self.admin.page(
            self.request,
            template,
            title=words.title,
            crumbs=crumbs,
            status=status,
            form=form,
            words=words,
            back=crumbs[-1][1],
            **context,
        )
