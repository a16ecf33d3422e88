"""The confirmation flow of the pages that change the configuration: form, preview of the effect, confirmation, message.

A preview has its own address below the form's (`preview/`, with the input in its query), to which the form redirects,
so Back and reload work. Input that is secret, or too long for an address, is kept apart for an hour
(:mod:`pools.admin.kept_input`). Reading a preview is a dry run: it changes nothing, and is the one kind of read that
needs a transaction in which it could (:mod:`pools.domain.page_addresses`).

A `Change` holds the operation and the texts of its pages; a `Preview` holds the other contents of the pages: one for
changes of a pool's tree, one for changes of a cohort, one for all other objects. The preview is a dry run of the very
service that the confirmation calls. The confirmation carries the version and the fingerprint of the state that the
preview was made from; if that state has changed meanwhile, the answer is a new preview and not the change. The service
compares it again under its locks, where no version does (:mod:`pools.services.changes.seen_state`). After a
refusal the form appears again with its input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import methodcaller
from typing import Any, ClassVar, Generic, Protocol, TypeVar, cast

from django.forms import BooleanField, BoundField, MultipleChoiceField
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.urls import URLPattern, path, reverse
from django.utils.http import urlencode

from pools.admin import done_changes, forms
from pools.admin.base import Breadcrumbs, PolicyAdmin, actor_of
from pools.admin.kept_input import KEPT_INPUT, KEPT_MINUTES, keep_input, read_kept_input
from pools.domain.approvals import ApprovalNeeded
from pools.domain.changes.command import ChangeCommand
from pools.domain.errors import BadInput, Busy, Conflict, Fault, RuleName, Stale, Violation
from pools.domain.page_addresses import PREVIEW_SEGMENT, is_preview_address
from pools.services.changes.dry_run import EffectAnswer, warnings_of
from pools.services.changes.seen_state import confirming_seen
from pools.services.changes.shown_effects import confirmed_effect, confirming, previewing, shown_command
from pools.services.configuration.approvals import request_approval

REFUSALS = (BadInput, Conflict, Busy)
NOTICE = "changed_meanwhile"
"""The key in the address of a preview that replaces an older one, which another change made obsolete."""
_CHANGED_MEANWHILE = "The configuration was changed meanwhile. This is the effect as of now."
_NOT_KEPT = (
    f"The input of this preview is kept for {KEPT_MINUTES} minutes and is gone now. Check all fields and enter again "
    "what is missing; nothing was changed."
)
EFFECT_BESIDE, BACK = "X-Effect-Beside", "back"
"""The header of a script that asks for the effect of unfinished input (`static/osmo/preview.js`), and its value after
the Back button."""
MAX_ADDRESS_LENGTH = 6000
"""The most characters of input in the address of a preview."""


def change_paths(route: str, view: Any, *, name: str) -> list[URLPattern]:
    """The addresses of a change: the form's, and the one of its preview."""
    return [path(route, view, name=name), path(f"{route}{PREVIEW_SEGMENT}", view, name=f"{name}_preview")]


def typed_input(request: HttpRequest) -> QueryDict:
    """The input of a request of the flow: submitted, or in the query of a preview's address, with what was kept apart
    of it."""
    return _read_typed(request)[0]


def _read_typed(request: HttpRequest) -> tuple[QueryDict, dict[str, str] | None]:
    """The input, and the part of it that was kept apart; None if that part does not exist any more."""
    data = (request.POST if request.method == "POST" else request.GET).copy()
    key = data.get(KEPT_INPUT, "")
    kept = read_kept_input(actor_of(request), key) if key else {}
    if kept is not None:
        kept = {name: text for name, text in kept.items() if name not in data}
        data.update(kept)
    return data, kept


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a service that answers nothing else than warnings, if any."""

    warnings: tuple[str, ...] = ()


ResultT = TypeVar("ResultT")
ResultT_contra = TypeVar("ResultT_contra", contravariant=True)


@dataclass(frozen=True, slots=True)
class FieldGroup:
    """Fields with a common title, which may be empty. A folded group opens by itself if one of its fields has an error
    or another value than `usual`."""

    title: str
    names: tuple[str, ...]
    usual: Mapping[str, object] | None = None


class ChangeForm(forms.ServiceForm):
    """A form that carries, hidden, the state that its preview was made from. `kept_fields` are left out of the address
    where they have their first value; a missing one means the present value. `groups` divide a long form; each visible
    field is in one of them."""

    kept_fields: ClassVar[frozenset[str]] = frozenset()
    groups: ClassVar[Sequence[FieldGroup]] = ()
    decides = ""
    """The field whose value says which other fields the form has."""
    seen = forms.hidden_text_field()
    version = forms.hidden_number_field()

    @property
    def shows_effect_beside(self) -> bool:
        """Whether a script may ask for the effect of the input while a person types: not of a secret or a file."""
        return not self.is_multipart() and not any(_is_secret(self, name) for name in self.fields)

    def names_in_order(self) -> Iterable[str] | None:
        """As the groups show them."""
        return [name for group in self.groups for name in group.names] or super().names_in_order()

    def grouped_fields(self) -> list[tuple[FieldGroup, list[BoundField], bool]]:
        """The groups with those of their fields that the form has, and whether the group is open."""
        found = []
        for group in self.groups:
            fields = [self[name] for name in group.names if name in self.fields]
            usual = group.usual or {}
            is_open = any(each.errors or (each.value() or "") != usual.get(each.name, "") for each in fields)
            found.append((group, fields, is_open))
        return found


class Preview(Protocol[ResultT_contra]):
    """The parts of the pages around the form of a change, and the dry run behind them."""

    form_template: ClassVar[str]
    effect_template: ClassVar[str]

    def form_context(self) -> dict[str, Any]:
        """Further context of the form's page."""

    def dry_run(self, operation: Callable[[], object]) -> EffectAnswer:
        """The effect of `operation`, which is rolled back (:func:`pools.services.changes.dry_run.read_effect`)."""

    def effect_context(self, effect: EffectAnswer, result: ResultT_contra) -> dict[str, Any]:
        """Further context of the preview's page."""

    def current_state(self) -> dict[str, Any] | None:
        """The present state, from which `fingerprint` is computed."""

    def fingerprint(self, state: dict[str, Any] | None) -> str:
        """A short text that identifies the state of a preview; empty if the version of the row does so."""


@dataclass(frozen=True, slots=True)
class FirstStep:
    """One thing that has to happen before a change: a message, and the page on which it is done."""

    message: str
    action: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Change(Generic[ResultT]):
    """One change and the texts of its pages. `unavailable_reason` says why the present state does not allow it, and
    `first_steps` say what has to happen before; with either of them there is no form. `breadcrumbs` are the pages
    above, the target of the back link last. `version` is None for a row that does not exist yet. `command` is the
    change of a valid form, which `service` makes; a :class:`~pools.admin.command_forms.CommandForm` knows it. What is
    said afterwards, and where, may depend on the result."""

    title: str
    button: str
    danger: bool = False
    unavailable_reason: str = ""
    first_steps: Sequence[FirstStep] = ()
    breadcrumbs: Breadcrumbs
    form_class: Callable[..., ChangeForm]
    initial: Mapping[str, Any] = field(default_factory=dict)
    version: int | None = None
    preview: Preview[ResultT]
    command: Callable[[Any], ChangeCommand] = methodcaller("command")
    service: Callable[..., ResultT]
    success_message: str | Callable[[ResultT], str]
    success_url: str | Callable[[ResultT], str]


def _text_after(text: str | Callable[[ResultT], str], result: ResultT) -> str:
    return text if isinstance(text, str) else text(result)


@dataclass(frozen=True, slots=True)
class _Input:
    """The input of one request. `key` names the part that was kept apart, `kept_names` are its fields; `is_lost`: that
    part does not exist any more."""

    data: QueryDict
    key: str
    kept_names: frozenset[str]
    is_lost: bool


def _encoded(typed: Mapping[str, list[str]], *, without: Mapping[str, str]) -> str:
    return urlencode({name: texts for name, texts in typed.items() if name not in without}, doseq=True)


def _forgotten_text(form: ChangeForm, sent: _Input) -> str:
    """The note about secrets that were kept for the preview, and that no form shows; empty without any."""
    labels = [f"“{form.fields[name].label}”" for name in sent.kept_names if _is_secret(form, name)]
    return f"{', '.join(labels)} is a secret and is not shown again: enter it once more." if labels else ""


def _is_secret(form: ChangeForm, name: str) -> bool:
    return isinstance(form.fields.get(name), forms.SecretField)


def _unix(text: str) -> str:
    """A text as it was before a browser gave it other ends of lines."""
    return forms.unix_lines(text).strip()


def _lines(text: str) -> list[str]:
    """The lines of a text: browsers send other ends of lines than they were given."""
    return text.strip().splitlines()


@dataclass(frozen=True, slots=True)
class ConfirmFlow(Generic[ResultT]):
    """One request of the confirmation flow."""

    admin: PolicyAdmin
    request: HttpRequest
    change: Change[ResultT]

    def respond(self) -> HttpResponse:
        """The form, the preview, a redirect between them, or the redirect after the change."""
        change, request = self.change, self.request
        if done := self._read_done():
            return self.admin.render_page(
                request,
                "osmo/change_done.html",
                title=change.title,
                crumbs=change.breadcrumbs,
                done=done,
                form_address=self._form_address,
            )
        if change.unavailable_reason or change.first_steps:
            if request.POST.get("step") == "confirm" and (end := self._end_of_same(self._read_input())):
                return end
            return self.admin.render_page(
                request,
                "osmo/change_unavailable.html",
                title=change.title,
                crumbs=change.breadcrumbs,
                status=409,
                reason=change.unavailable_reason,
                first_steps=change.first_steps,
                back=change.breadcrumbs[-1][1],
            )
        sent = self._read_input()
        form_class, step = change.form_class, request.POST.get("step")
        if request.method != "POST" and not is_preview_address(request.path):
            form = form_class(initial=self._first_values(sent.data))
            return self._form_page(form, note=_NOT_KEPT if sent.is_lost else _forgotten_text(form, sent))
        form = form_class(sent.data, request.FILES if request.method == "POST" else None)
        if step == "edit":
            return HttpResponseRedirect(f"{self._form_address}?{self._query(form, sent)}")
        form.full_clean()
        if sent.is_lost:
            form.add_error(None, _NOT_KEPT)
        if not form.is_valid():
            return self._form_page(form)
        if request.method != "POST":
            return self._preview_page(form, sent)
        if step in ("confirm", "ask"):
            return self._confirm(form, sent, asks=step == "ask")
        return self._redirect_to_preview(form, sent)

    def _read_done(self) -> done_changes.DoneChange | None:
        """What was said when this person made the change whose preview they come back to."""
        is_back = self.request.headers.get(EFFECT_BESIDE, BACK) == BACK
        if self.request.method == "POST" or not is_preview_address(self.request.path) or not is_back:
            return None
        found = done_changes.read_done(actor_of(self.request), self._form_address, self._input_mark(self._read_input()))
        is_as_left = found is None or found["version"] is None or self.change.version == found["version"] + 1
        return found if is_as_left else None  # after further changes the same input is a change again

    def _input_mark(self, sent: _Input) -> dict[str, list[str]]:
        """The input of a preview, the same in its address and in what its button sends."""
        names = [each.name for each in self.change.form_class().visible_fields()]
        typed = {
            name: [_unix(text) for text in sent.data.getlist(name)] for name in names if name not in sent.kept_names
        }
        return {name: texts for name, texts in typed.items() if any(texts)} | {KEPT_INPUT: [sent.key]}

    def _read_input(self) -> _Input:
        """The input of the request, with what was kept apart of it."""
        data, kept = _read_typed(self.request)
        if self.request.method == "POST" or is_preview_address(self.request.path):
            for name in self.change.form_class().kept_fields - data.keys():
                data[name] = self._first_text(name)
        return _Input(data, data.get(KEPT_INPUT, ""), frozenset(kept or ()), is_lost=kept is None)

    def _first_text(self, name: str) -> str:
        """The first value of a field, as a browser would send it."""
        value = self.change.initial.get(name)
        return "" if value is None else str(value)

    def _first_values(self, data: QueryDict) -> dict[str, Any]:
        """The first values of the form: those in the address, if it has any, and the present ones."""
        if not data:
            return dict(self.change.initial)
        values = dict(self.change.initial)
        for name, each in self.change.form_class().fields.items():
            if isinstance(each, MultipleChoiceField):
                values[name] = data.getlist(name)
            elif isinstance(each, BooleanField):
                values[name] = name in data
            elif name in data:
                values[name] = data[name]
        return values

    @property
    def _form_address(self) -> str:
        return self.request.path.removesuffix(PREVIEW_SEGMENT)

    def _typed(self, form: ChangeForm, sent: _Input) -> dict[str, list[str]]:
        """The input by field, without what was kept apart and what is as before."""
        data = cast("QueryDict", form.data)  # a form may have replaced a part of its input
        typed = {each.name: data.getlist(each.name) for each in form.visible_fields() if each.name in data}
        return {
            name: texts
            for name, texts in typed.items()
            if name not in sent.kept_names
            and not (name in form.kept_fields and _lines(texts[0]) == _lines(self._first_text(name)))
        }

    def _query(self, form: ChangeForm, sent: _Input) -> str:
        """The input as the query of an address, with a key for the part that is kept apart."""
        typed, key = self._typed(form, sent), sent.key
        apart = {name: texts[0] for name, texts in typed.items() if _is_secret(form, name) and texts[0]}
        query = _encoded(typed, without=apart)
        longest_first = sorted((name for name in typed if len(typed[name]) == 1), key=lambda name: -len(typed[name][0]))
        for name in longest_first:
            if len(query) <= MAX_ADDRESS_LENGTH:
                break
            apart[name] = typed[name][0]
            query = _encoded(typed, without=apart)
        if apart:
            earlier = {name: str(sent.data[name]) for name in sent.kept_names}
            key = keep_input(actor_of(self.request), {**earlier, **apart})
        return "&".join(part for part in (query, urlencode({KEPT_INPUT: key}) if key else "") if part)

    def _redirect_to_preview(self, form: ChangeForm, sent: _Input, *, is_repeated: bool = False) -> HttpResponse:
        done_changes.forget_done(actor_of(self.request), self._form_address, self._input_mark(sent))
        notice = urlencode({NOTICE: "1"}) if is_repeated else ""
        query = "&".join(part for part in (self._query(form, sent), notice) if part)
        return HttpResponseRedirect(f"{self._form_address}{PREVIEW_SEGMENT}?{query}")

    def _form_page(self, form: ChangeForm, *, note: str = "") -> HttpResponse:
        preview, is_asked_beside = self.change.preview, EFFECT_BESIDE in self.request.headers
        status = 400 if form.errors and not is_asked_beside else 200  # half-typed input is no fault of the browser
        return self._render(
            preview.form_template,
            form,
            status=status,
            note=note,
            has_effect_panel=form.shows_effect_beside,
            is_prefilled=bool(self.request.GET) and not form.errors,
            **preview.form_context(),
        )

    def _preview_page(self, form: ChangeForm, sent: _Input) -> HttpResponse:
        change, preview = self.change, self.change.preview
        results: list[ResultT] = []
        notice = _CHANGED_MEANWHILE if NOTICE in self.request.GET else ""
        try:
            with previewing(shown_command(change.command(form)), actor_of(self.request)):
                effect = preview.dry_run(lambda: results.append(self._make(form, None)))
        except REFUSALS as refusal:
            form.add_errors(refusal)
            return self._form_page(form)
        needs = [each["message"] for each in effect["violations"] if each["code"] == Fault.APPROVAL_NEEDED]
        if len(needs) < len(effect["violations"]) or (needs and not self._may_ask(form)):
            violations = [
                Violation(each["path"], RuleName(each["code"]), each["message"]) for each in effect["violations"]
            ]
            form.add_errors(BadInput.of(violations))
            return self._form_page(form)
        seen = preview.fingerprint(effect["before"])
        typed = self._typed(form, sent)
        hidden: dict[str, Any] = {name: texts if len(texts) > 1 else texts[0] for name, texts in typed.items()}
        hidden |= {KEPT_INPUT: sent.key} if sent.key else {}
        hidden |= {"seen": seen, "version": "" if change.version is None else change.version}
        return self._render(
            preview.effect_template,
            form,
            form_address=self._form_address,
            notice=notice,
            effect=effect,
            approval_needs=needs,
            hidden=hidden,
            hidden_inputs=[
                (name, text)
                for name, value in hidden.items()
                for text in (value if isinstance(value, list) else [value])
            ],
            **preview.effect_context(effect, results[0]),
        )

    def _confirm(self, form: ChangeForm, sent: _Input, *, asks: bool) -> HttpResponse:
        with done_changes.making(actor_of(self.request), self._form_address) as mark:
            return self._make_confirmed(form, sent, mark, asks=asks)

    def _end_of_same(self, sent: _Input, mark: done_changes.Making | None = None) -> HttpResponse | None:
        """The end of this very confirmation if it was sent before, as by a double click or a browser that sends it
        again; if it was sent twice at once, the other one is being made (`mark`)."""
        change = (actor_of(self.request), self._form_address, self._input_mark(sent))
        found = done_changes.read_done_by_other(*change, mark) if mark else done_changes.read_done(*change)
        if found is None:
            return None
        before, now = found["version"], self.change.version
        if sent.data.get("version", "") != ("" if before is None else str(before)):
            return None
        if before is not None and now not in (before, before + 1):  # changed further: the same input is a change again
            return None
        self.admin.show_success(self.request, found["message"])
        return HttpResponseRedirect(found["address"])

    def _make_confirmed(self, form: ChangeForm, sent: _Input, mark: done_changes.Making, *, asks: bool) -> HttpResponse:
        if form.cleaned_data["seen"] != self._mark_now():
            return self._end_of_same(sent, mark) or self._redirect_to_preview(form, sent, is_repeated=True)
        try:
            command, actor, note = self.change.command(form), actor_of(self.request), form.cleaned_data["description"]
            with (
                confirming(shown_command(command), actor),
                confirming_seen(form.cleaned_data["seen"], self._mark_now),
                confirmed_effect(command, actor=actor, title=self.change.title, description=note),
            ):
                result = self._make(form, form.cleaned_data["version"])
        except Stale:
            return self._end_of_same(sent, mark) or self._redirect_to_preview(form, sent, is_repeated=True)
        except ApprovalNeeded as need:
            if asks and self._may_ask(form):
                return self._ask(form, self.change.command(form), need)
            form.add_errors(need)
            return self._form_page(form)
        except REFUSALS as refusal:
            if end := self._end_of_same(sent, mark):
                return end
            form.add_errors(refusal)
            return self._form_page(form)
        message = _text_after(self.change.success_message, result)
        self.admin.show_success(self.request, " ".join([message, *warnings_of(result)]))
        address = _text_after(self.change.success_url, result)
        done = done_changes.DoneChange(message=message, address=address, version=self.change.version)
        done_changes.keep_done(actor_of(self.request), self._form_address, self._input_mark(sent), done)
        if self.change.danger:
            done_changes.keep_done(actor_of(self.request), self._form_address, done_changes.GONE, done)
        return HttpResponseRedirect(address)

    def _mark_now(self) -> str:
        """The mark of the present state."""
        return self.change.preview.fingerprint(self.change.preview.current_state())

    def _make(self, form: ChangeForm, version: int | None) -> ResultT:
        """Make the change of a valid form; also the operation of its dry run."""
        note = {"actor": actor_of(self.request), "description": form.cleaned_data["description"]}
        command = self.change.command(form)
        return self.change.service(command, **note, **({"expected_version": version} if command.needs_version else {}))

    def _may_ask(self, form: ChangeForm) -> bool:
        """Whether the approval of a second person can be requested for this change."""
        return self.change.command(form).may_need_approval

    def _ask(self, form: ChangeForm, command: ChangeCommand, need: ApprovalNeeded) -> HttpResponse:
        actor, reason = actor_of(self.request), form.cleaned_data["description"]
        try:
            row = request_approval(command, actor=actor, description=reason, need=need)
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
