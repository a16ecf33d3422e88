"""Every change of a pool's tree in the browser walks the same way: form, preview of the effect, confirmation, message.

The preview is a dry run of the very service that the confirmation calls. The confirmation carries what the preview was
made from; if somebody changed the tree meanwhile, it becomes a new preview instead of a change. A refusal goes back to
the form, with everything that was typed still in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, cast

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from pools import pages
from pools.admin import forms
from pools.admin.policy import PolicyAdmin
from pools.domain.effects import NodeEffect, consequences, node_effects
from pools.domain.errors import BadInput, Busy, Conflict, Stale, Violation
from pools.domain.roles import Actor
from pools.models import Pool, Reservation
from pools.selectors import tree_body
from pools.services.dry_run import effect_on_tree

WHY_HELP = "Optional. Stands in the audit trail beside your name."
Refused = (BadInput, Conflict, Busy)


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
class Flow:
    """One request's walk. A subclass says what is done (`act`), what of (`version`) and what to tell (`told`)."""

    admin: PolicyAdmin
    request: HttpRequest
    actor: Actor
    pool: Pool | None

    form_class: ClassVar[type[ChangeForm]] = ChangeForm

    # --- what a subclass says ---
    def words(self, form: ChangeForm) -> Words:
        """Title and button."""
        raise NotImplementedError

    @property
    def root(self) -> Pool:
        """The pool, in the walks that begin at one."""
        return cast("Pool", self.pool)

    def root_name(self, form: ChangeForm) -> str:
        """The tree that changes."""
        return self.root.name

    def version(self) -> int | None:
        """The version of what is changed, as the preview saw it; None for what does not exist yet."""
        return None

    def initial(self) -> dict[str, Any]:
        """What the form begins with."""
        return {}

    def act(self, form: ChangeForm, *, version: int | None) -> Result:
        """Do it, in earnest or inside the dry run."""
        raise NotImplementedError

    def tried(self, form: ChangeForm, deed: Callable[[], object]) -> dict[str, Any]:
        """The dry run of `deed`."""
        return effect_on_tree(self.root_name(form), deed, actor=self.actor)

    def told(self, result: Any) -> str:
        """The sentence afterwards."""
        raise NotImplementedError

    def closed(self) -> str:
        """Why this change is of no use now, before somebody fills in a form for nothing."""
        return ""

    def staying(self, effect: dict[str, Any]) -> list[Reservation]:
        """Work that goes on on what is taken away."""
        return []

    def sentences(self, nodes: tuple[NodeEffect, ...], staying: list[Reservation], result: Any) -> tuple[str, ...]:
        """What the preview says before its table."""
        return consequences(nodes)

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
        tree = pages.trees([self.pool])[0] if self.pool else None
        status = 400 if form.errors else 200
        return self._page("osmo/change_form.html", form, status=status, tree=tree, notice=self.closed())

    def _preview(self, form: ChangeForm, notice: str = "") -> HttpResponse:
        results: list[Result] = []
        try:
            effect = self.tried(form, lambda: results.append(self.act(form, version=None)))
        except Refused as refusal:
            form.blame(refusal)
            return self._ask(form)
        if effect["violations"]:
            found = [Violation(each["path"], each["code"], each["message"]) for each in effect["violations"]]
            form.blame(BadInput.of(found))
            return self._ask(form)
        nodes, staying = node_effects(effect["before"], effect["after"]), self.staying(effect)
        version = self.version()
        seen = {"seen": _fingerprint(effect["before"]), "version": "" if version is None else version}
        return self._page(
            "osmo/change_effect.html",
            form,
            nodes=nodes,
            notice=notice,
            sentences=(*self.sentences(nodes, staying, results[0]), *results[0].warnings),
            staying=staying,
            effect=effect,
            reclaimed=effect["may_be_reclaimed"],
            reclaimed_elsewhere=effect["may_be_reclaimed_elsewhere"],
            hidden={name: form.data[name] for name in form.fields if name in form.data} | seen,
        )

    def _confirm(self, form: ChangeForm) -> HttpResponse:
        current = tree_body(self.pool) if self.pool else None
        if form.cleaned_data["seen"] != _fingerprint(current):
            return self._preview(form, notice="The pool was changed meanwhile. This is the effect as of now.")
        try:
            result = self.act(form, version=form.cleaned_data["version"])
        except Stale:
            return self._preview(form, notice="It was changed meanwhile. This is the effect as of now.")
        except Refused as refusal:
            form.blame(refusal)
            return self._ask(form)
        self.admin.say(self.request, " ".join([self.told(result), *result.warnings]))
        return HttpResponseRedirect(reverse("admin:pools_pool_change", args=[self.root_name(form)]))

    def _page(self, template: str, form: ChangeForm, *, status: int = 200, **context: Any) -> HttpResponse:
        words, home = self.words(form), reverse("admin:index")
        back = reverse("admin:pools_pool_change", args=[self.pool.name]) if self.pool else home
        above = [(self.pool.name, back)] if self.pool else []
        return self.admin.page(
            self.request,
            template,
            title=words.title,
            crumbs=[("Pools", home), *above],
            status=status,
            form=form,
            words=words,
            pool=self.pool,
            back=back,
            **context,
        )


def _fingerprint(body: dict[str, Any] | None) -> str:
    """Which state of a tree a preview was made from: the versions of all its rows, which move with quotas and states
    and not with use."""
    if body is None:
        return ""
    parts = [f"{part['subpool_name']}:{part['version']}" for part in body["subpools"]]
    return " ".join([str(body["version"]), *parts])
