"""The confirmation flow of the pages that change quotas: form, preview of the effect, confirmation, message.

A preview has its own address below the form's (`preview/`, with the input in its query), to which the form redirects,
so Back and reload work. Reading it is a dry run: it changes nothing, and is the one kind of read that needs a
transaction in which it could (:mod:`pools.domain.page_addresses`).

A `Change` holds the operation and the texts of its pages; a `Preview` holds the other contents of the pages, one for
changes of a pool's tree and one for changes of a cohort. The preview is a dry run of the very service that the
confirmation calls. The confirmation carries the version and the fingerprint of the state that the preview was made
from; if that state has changed meanwhile, the answer is a new preview and not the change. After a refusal the form
appears again with its input.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.urls import URLPattern, path, reverse
from django.utils.http import urlencode

from pools.admin import forms
from pools.admin.base import Breadcrumbs, PolicyAdmin, actor_of
from pools.domain.approvals import APPROVAL_NEEDED, ApprovalNeeded
from pools.domain.errors import BadInput, Busy, Conflict, Stale, Violation
from pools.domain.page_addresses import PREVIEW_SEGMENT, is_preview_address
from pools.services.approvals import RequestedChange, request_approval

REASON_HELP = "Optional. Recorded in the audit log beside your name."
REFUSALS = (BadInput, Conflict, Busy)
NOTICE = "changed_meanwhile"
"""The key in the address of a preview that replaces an older one, which another change made obsolete."""
_CHANGED_MEANWHILE = "The configuration was changed meanwhile. This is the effect as of now."


def change_paths(route: str, view: Any, *, name: str) -> list[URLPattern]:
    """The addresses of a change: the form's, and the one of its preview."""
    return [path(route, view, name=name), path(f"{route}{PREVIEW_SEGMENT}", view, name=f"{name}_preview")]


def typed_input(request: HttpRequest) -> QueryDict:
    """The input of a request of the flow: submitted, or in the query of a preview's address."""
    return request.POST if request.method == "POST" else request.GET


class ServiceResult(Protocol):
    """The answer of a service that changes something."""

    @property
    def warnings(self) -> tuple[str, ...]: ...


ResultT = TypeVar("ResultT", bound=ServiceResult)
ResultT_contra = TypeVar("ResultT_contra", bound=ServiceResult, contravariant=True)


class ChangeForm(forms.ServiceForm):
    """A form that carries, hidden, the state that its preview was made from."""

    seen = forms.hidden_text_field()
    version = forms.hidden_number_field()


class Preview(Protocol[ResultT_contra]):
    """The parts of the pages beside the form of a change, and the dry run behind them."""

    form_template: ClassVar[str]
    effect_template: ClassVar[str]

    def form_context(self) -> dict[str, Any]:
        """Further context of the form's page."""

    def dry_run(self, operation: Callable[[], object]) -> dict[str, Any]:
        """The effect of `operation`, which is rolled back (:func:`pools.services.dry_run.read_effect`)."""

    def effect_context(self, effect: dict[str, Any], result: ResultT_contra) -> dict[str, Any]:
        """Further context of the preview's page."""

    def current_state(self) -> dict[str, Any] | None:
        """The present state, from which `fingerprint` is computed."""

    def fingerprint(self, state: dict[str, Any] | None) -> str:
        """A short text that identifies the state of a preview; empty if the version of the row does so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change(Generic[ResultT]):
    """One change and the texts of its pages. `unavailable_reason` says why the present state does not allow it; then
    there is no form. `breadcrumbs` are the pages above, the target of the back link last.
    `version` is None for a row that does not exist yet. `execute` gets the valid form and the expected version, which
    is None in the dry run. `requested` is the same change as a request for the approval of a second person."""

    title: str
    button: str
    danger: bool = False
    unavailable_reason: str = ""
    breadcrumbs: Breadcrumbs
    form_class: type[ChangeForm]
    initial: Mapping[str, Any] = field(default_factory=dict)
    version: int | None = None
    preview: Preview[ResultT]
    execute: Callable[[ChangeForm, int | None], ResultT]
    requested: Callable[[ChangeForm], RequestedChange] | None = None
    success_message: Callable[[ResultT], str]
    success_url: Callable[[ResultT], str]


@dataclass(frozen=True, slots=True)
class ConfirmFlow(Generic[ResultT]):
    """One request of the confirmation flow."""

    admin: PolicyAdmin
    request: HttpRequest
    change: Change[ResultT]

    def respond(self) -> HttpResponse:
        """The form, the preview, a redirect between them, or the redirect after the change."""
        change, request = self.change, self.request
        if change.unavailable_reason:
            return self.admin.render_page(
                request,
                "osmo/change_unavailable.html",
                title=change.title,
                crumbs=change.breadcrumbs,
                status=409,
                reason=change.unavailable_reason,
                back=change.breadcrumbs[-1][1],
            )
        form_class = change.form_class
        if request.method != "POST":
            if not is_preview_address(request.path):
                return self._form_page(form_class(initial=request.GET.dict() or dict(change.initial)))
            form = form_class(request.GET)
            return self._preview_page(form) if form.is_valid() else self._form_page(form)
        form, step = form_class(request.POST, request.FILES), request.POST.get("step")
        if step == "edit":
            return HttpResponseRedirect(f"{self._form_address}?{self._query(form)}")
        if not form.is_valid():
            return self._form_page(form)
        return (
            self._confirm(form, asks=step == "ask") if step in ("confirm", "ask") else self._redirect_to_preview(form)
        )

    @property
    def _form_address(self) -> str:
        return self.request.path.removesuffix(PREVIEW_SEGMENT)

    @staticmethod
    def _query(form: ChangeForm) -> str:
        typed = {field.name: form.data[field.name] for field in form.visible_fields() if field.name in form.data}
        return urlencode(typed)

    def _redirect_to_preview(self, form: ChangeForm, *, is_repeated: bool = False) -> HttpResponse:
        query = "&".join(part for part in (self._query(form), urlencode({NOTICE: "1"}) if is_repeated else "") if part)
        return HttpResponseRedirect(f"{self._form_address}{PREVIEW_SEGMENT}?{query}")

    def _form_page(self, form: ChangeForm) -> HttpResponse:
        preview = self.change.preview
        return self._render(preview.form_template, form, status=400 if form.errors else 200, **preview.form_context())

    def _preview_page(self, form: ChangeForm) -> HttpResponse:
        change, preview = self.change, self.change.preview
        results: list[ResultT] = []
        try:
            effect = preview.dry_run(lambda: results.append(change.execute(form, None)))
        except REFUSALS as refusal:
            form.add_errors(refusal)
            return self._form_page(form)
        needs = [each["message"] for each in effect["violations"] if each["code"] == APPROVAL_NEEDED]
        if len(needs) < len(effect["violations"]) or (needs and change.requested is None):
            violations = [Violation(each["path"], each["code"], each["message"]) for each in effect["violations"]]
            form.add_errors(BadInput.of(violations))
            return self._form_page(form)
        seen = preview.fingerprint(effect["before"])
        sent = {field.name: form.data[field.name] for field in form.visible_fields() if field.name in form.data}
        return self._render(
            preview.effect_template,
            form,
            form_address=self._form_address,
            notice=_CHANGED_MEANWHILE if NOTICE in self.request.GET else "",
            effect=effect,
            approval_needs=needs,
            hidden=sent | {"seen": seen, "version": "" if change.version is None else change.version},
            **preview.effect_context(effect, results[0]),
        )

    def _confirm(self, form: ChangeForm, *, asks: bool) -> HttpResponse:
        preview = self.change.preview
        if form.cleaned_data["seen"] != preview.fingerprint(preview.current_state()):
            return self._redirect_to_preview(form, is_repeated=True)
        try:
            result = self.change.execute(form, form.cleaned_data["version"])
        except Stale:
            return self._redirect_to_preview(form, is_repeated=True)
        except ApprovalNeeded as need:
            if asks and self.change.requested is not None:
                return self._ask(form, self.change.requested(form), need)
            form.add_errors(need)
            return self._form_page(form)
        except REFUSALS as refusal:
            form.add_errors(refusal)
            return self._form_page(form)
        self.admin.show_success(self.request, " ".join([self.change.success_message(result), *result.warnings]))
        return HttpResponseRedirect(self.change.success_url(result))

    def _ask(self, form: ChangeForm, requested: RequestedChange, need: ApprovalNeeded) -> HttpResponse:
        try:
            row = request_approval(actor=actor_of(self.request), requested=requested, need=need)
        except REFUSALS as refusal:
            form.add_errors(refusal)
            return self._form_page(form)
        self.admin.show_success(self.request, f"Request {row.pk} waits for the approval of a second person.")
        return HttpResponseRedirect(reverse("admin:pools_approvalrequest_change", args=[row.pk]))

    def _render(self, template: str, form: ChangeForm, *, status: int = 200, **context: Any) -> HttpResponse:
        change = self.change
        return self.admin.render_page(
            self.request,
            template,
            title=change.title,
            crumbs=change.breadcrumbs,
            status=status,
            form=form,
            change=change,
            back=change.breadcrumbs[-1][1],
            **context,
        )
