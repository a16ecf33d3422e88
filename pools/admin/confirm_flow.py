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
from pools.admin.policy import Crumbs, PolicyAdmin
from pools.domain.errors import BadInput, Busy, Conflict, Stale, Violation
from pools.domain.roles import Actor

WHY_HELP = "Optional. Stands in the audit trail beside your name."
Refused = (BadInput, Conflict, Busy)
_MEANWHILE = "It was changed meanwhile. This is the effect as of now."


class Result(Protocol):
    """What a ledger service answers."""

    @property
    def warnings(self) -> tuple[str, ...]: ...


class ChangeForm(forms.HouseForm):
    """Carries, hidden, what was seen when the effect was shown."""

    seen = forms.hidden_text()
    version = forms.hidden_number()


@dataclass(frozen=True, slots=True)
class Words:
    """What the pages of one change say."""

    title: str
    button: str
    danger: bool = False


@dataclass(slots=True)
class Walk(ABC):
    """One request's walk. A subclass says what is done (`act`), what is shown before it and what is told after it."""

    admin: PolicyAdmin
    request: HttpRequest
    actor: Actor

    form_class: ClassVar[type[ChangeForm]] = ChangeForm
    form_template: ClassVar[str]
    effect_template: ClassVar[str]

    # --- what a subclass says ---
    @abstractmethod
    def words(self, form: ChangeForm) -> Words:
        """Title and button."""

    @abstractmethod
    def above(self) -> Crumbs:
        """The pages above, the last of which is the way back."""

    def initial(self) -> dict[str, Any]:
        """What the form begins with."""
        return {}

    def asked(self) -> dict[str, Any]:
        """What the form's page shows beside the form."""
        return {}

    def version(self) -> int | None:
        """The version of what is changed, as the preview saw it; None for what does not exist yet."""
        return None

    @abstractmethod
    def act(self, form: ChangeForm, *, version: int | None) -> Result | None:
        """Do it, in earnest or inside the dry run."""

    @abstractmethod
    def tried(self, form: ChangeForm, deed: Callable[[], object]) -> dict[str, Any]:
        """The dry run of `deed`."""

    @abstractmethod
    def shown(self, effect: dict[str, Any], result: Any) -> dict[str, Any]:
        """What the preview shows beside the effect."""

    def fingerprint(self, body: dict[str, Any] | None) -> str:
        """Which state a preview was made from, where the version alone does not tell."""
        return ""

    def as_it_is(self) -> dict[str, Any] | None:
        """What `fingerprint` is taken of, now."""
        return None

    @abstractmethod
    def told(self, form: ChangeForm, result: Any) -> str:
        """The sentence afterwards."""

    @abstractmethod
    def after(self, form: ChangeForm) -> str:
        """Where to go afterwards."""

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
        return self._page(self.form_template, form, status=400 if form.errors else 200, **self.asked())

    def _preview(self, form: ChangeForm, notice: str = "") -> HttpResponse:
        results: list[Result | None] = []
        try:
            effect = self.tried(form, lambda: results.append(self.act(form, version=None)))
        except Refused as refusal:
            form.blame(refusal)
            return self._ask(form)
        if effect["violations"]:
            found = [Violation(each["path"], each["code"], each["message"]) for each in effect["violations"]]
            form.blame(BadInput.of(found))
            return self._ask(form)
        version = self.version()
        seen = {"seen": self.fingerprint(effect["before"]), "version": "" if version is None else version}
        return self._page(
            self.effect_template,
            form,
            notice=notice,
            effect=effect,
            hidden={name: form.data[name] for name in form.fields if name in form.data} | seen,
            **self.shown(effect, results[0]),
        )

    def _confirm(self, form: ChangeForm) -> HttpResponse:
        if form.cleaned_data["seen"] != self.fingerprint(self.as_it_is()):
            return self._preview(form, notice=_MEANWHILE)
        try:
            result = self.act(form, version=form.cleaned_data["version"])
        except Stale:
            return self._preview(form, notice=_MEANWHILE)
        except Refused as refusal:
            form.blame(refusal)
            return self._ask(form)
        self.admin.say(self.request, " ".join([self.told(form, result), *(result.warnings if result else ())]))
        return HttpResponseRedirect(self.after(form))

    def _page(self, template: str, form: ChangeForm, *, status: int = 200, **context: Any) -> HttpResponse:
        words, crumbs = self.words(form), self.above()
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
