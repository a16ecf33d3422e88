"""Submitting a workflow file or a PodGroup: paste or upload it, check it, and see every error with its line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from django.forms import FileField, FileInput, ValidationError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from pools.admin import forms
from pools.admin.base import PolicyAdmin, actor_of
from pools.admin.confirm_flow import FirstStep
from pools.admin.done_changes import sent_once
from pools.admin.name_fields import suggest_name
from pools.domain.errors import DomainError, Forbidden, NotFound
from pools.domain.people.roles import Actor
from pools.domain.structured_input.declared_values import fields_of
from pools.domain.values.counting import counted
from pools.representations.page_parameters import also_say, unread_filter
from scheduling.admin.submit_examples import EXAMPLES, ONE_TASK
from scheduling.domain.changes.submissions import SubmitWorkflow
from scheduling.domain.list_columns import WAY_COLUMNS
from scheduling.domain.priorities import Priority
from scheduling.history.starts.question import compare_ways_in, starts_if_submitted
from scheduling.selectors.work.observed_objects import find_observed_object
from scheduling.selectors.work.submission_leaves import submission_leaves
from scheduling.selectors.work.workflow_log import words_of_work
from scheduling.selectors.work.workflows import get_visible_workflow
from scheduling.services.workflows.submission import (
    PreparedSubmissions,
    Submission,
    prepare_submissions,
    submit_prepared,
)

_SUBMITTED = fields_of(SubmitWorkflow)
MAX_FILE_BYTES = 1024 * 1024
MAX_POOL_CHOICES = 300  # with more pools than that, the name is typed instead of chosen
SUBPOOL_PREFIX = "\N{NO-BREAK SPACE}\N{NO-BREAK SPACE}└ "
PRIORITY_CHOICES = [
    ("", "As in the file; NORMAL by default"),
    (Priority.NORMAL, "NORMAL: within the quota, never preempted"),
    (Priority.HIGH, "HIGH: as NORMAL, and starts first"),
    (Priority.LOW, "LOW: may go over quota, preemptible"),
]
EXAMPLE_CHOICES = [("", "Choose one: it replaces the text"), *((key, words) for key, (words, _) in EXAMPLES.items())]


@dataclass(frozen=True, slots=True)
class FileFault:
    """One error in a file, with its line."""

    line: int | None
    text: str
    path: str
    message: str


class SubmitForm(forms.ServiceForm):
    """A file, and the pool that runs it."""

    pool: Any = forms.choice_field(_SUBMITTED["pool"].label)
    priority = forms.choice_field(_SUBMITTED["priority"].label, PRIORITY_CHOICES, required=False)
    example = forms.choice_field("Example", EXAMPLE_CHOICES, required=False)
    upload = FileField(label="Upload a file", required=False, widget=FileInput(), help_text="Replaces the text below.")
    file = forms.code_field(_SUBMITTED["file"].label, rows=18)
    variables = forms.code_field(
        _SUBMITTED["set_variables"].label,
        rows=2,
        max_length=forms.MAX_TEXT_LENGTH,
        help_text="One NAME=VALUE a line, over the file's default-values.",
    )

    def __init__(self, *args: Any, pools: list[tuple[str, str]], actor: Actor, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.actor = actor
        self.show_pools(pools)

    def show_pools(self, pools: list[tuple[str, str]]) -> None:
        """Offer these pools."""
        self.fields["pool"].choices = pools  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        if data.get("upload") is not None:
            data["file"] = self.read_upload("upload", longest=MAX_FILE_BYTES)
        else:
            data["file"] = forms.unix_lines(data.get("file", ""))
        if not data["file"].strip() and not self.errors:
            self.add_error("file", "Upload a workflow file, or paste one here.")
        return data

    def to_submission(self) -> Submission:
        """The submission for the service."""
        lines = [line.strip() for line in self.cleaned_data["variables"].splitlines() if line.strip()]
        return Submission(
            file=self.cleaned_data["file"],
            priority=Priority(self.cleaned_data["priority"]) if self.cleaned_data["priority"] else None,
            set_variables=tuple(lines),
        )


class TypedPoolForm(SubmitForm):
    """The form where a person may use more pools than a list shows: the name is typed."""

    pool = forms.text_field(
        _SUBMITTED["pool"].label,
        help_text="Type a part of its name, and choose it.",
        required=True,
        data_complete="leaves",
    )

    def show_pools(self, pools: list[tuple[str, str]]) -> None:
        """Nothing: the box asks for them."""

    def clean_pool(self) -> str:
        """The name of a pool. Raises ValidationError with the nearest one."""
        name, leaves = str(self.cleaned_data["pool"]).strip(), submission_leaves(self.actor)
        if not leaves.filter(name=name).exists():
            near = suggest_name(name, leaves.values_list("name", flat=True))
            raise ValidationError(f"This is not a pool or subpool to which you may submit.{near}")
        return name


def submit_workflow_page(admin: PolicyAdmin, request: HttpRequest) -> HttpResponse:
    """Form, check, submit. The pasted text stays on the page until it is submitted."""
    actor = actor_of(request)
    pools = _pool_choices(actor)
    if not pools and actor.is_admin:
        back = reverse("admin:scheduling_workflow_changelist")
        first = FirstStep(
            "Work runs in a pool, and there is no pool yet.", "Create a pool", reverse("admin:pools_pool_create")
        )
        return admin.render_page(
            request,
            "osmo/change_unavailable.html",
            title="Submit a workflow",
            status=409,
            first_steps=[first],
            back=back,
        )
    if not pools:
        raise Forbidden(
            "You may not submit to any pool yet. Ask an osmo-admin for the role osmo-POOL-user of the pool you need."
        )
    form_class = TypedPoolForm if len(pools) > MAX_POOL_CHOICES else SubmitForm
    if request.method != "POST":
        return _render(admin, request, form_class(pools=pools, actor=actor, initial=_initial_values(request, actor)))
    step = request.POST.get("step")
    if step == "example":
        return _render(admin, request, form_class(pools=pools, actor=actor, initial=_with_example(request)))
    form = form_class(request.POST, request.FILES, pools=pools, actor=actor)
    if not form.is_valid():
        return _render(admin, request, _with_uploaded_text(form))
    submission = form.to_submission()
    pool = form.cleaned_data["pool"]
    starts: dict[str, Any] = {}
    try:
        prepared = prepare_submissions(actor=actor, pool=pool, submissions=[submission])
        if step == "submit":
            return _submit_once(admin, request, form, prepared)
        [receipt] = submit_prepared(actor=actor, prepared=prepared, is_dry_run=True)
        starts = _read_starts(actor, prepared, with_ways=step == "ways")
    except DomainError as refusal:
        return _render(
            admin, request, _with_uploaded_text(form), faults=_file_faults(refusal, submission), refusal=refusal
        )
    words = words_of_work(receipt.pool.root, (task.gpu_flavors for task in receipt.spec.tasks if task.gpu))
    starts["needed"] = counted(receipt.spec.largest_gang_gpus, *words)
    return _render(admin, request, _with_uploaded_text(form), receipt=receipt, **starts)


def _submit_once(
    admin: PolicyAdmin, request: HttpRequest, form: SubmitForm, prepared: PreparedSubmissions
) -> HttpResponse:
    """Submit the file of a valid form, once, and lead to the workflow. Raises as :func:`submit_prepared`."""

    def submit_now() -> tuple[str, str]:
        [receipt] = submit_prepared(actor=actor_of(request), prepared=prepared)
        assert receipt.workflow is not None
        return receipt.workflow.name, receipt.pool.name

    sent = repr((prepared.leaf.name, form.to_submission()))
    (name, leaf), is_repeat = sent_once(actor_of(request), form, sent, submit_now)
    more = " This form was sent before: to submit the file once more, open this page again." if is_repeat else ""
    admin.show_success(request, f"{name} was submitted to {leaf}.{more}")
    return HttpResponseRedirect(reverse("admin:scheduling_workflow_change", args=[name]))


def _read_starts(actor: Actor, prepared: PreparedSubmissions, *, with_ways: bool) -> dict[str, Any]:
    """The start of the work; with `with_ways` also other ways to start."""
    if not with_ways:
        return {"start": starts_if_submitted(actor, prepared)[0]}
    ways = compare_ways_in(actor, prepared)
    return {"start": next((way.start for way in ways if way.code == "as_asked"), None), "ways": ways}


def _pool_choices(actor: Actor) -> list[tuple[str, str]]:
    """The pools that this actor may submit to, each before its subpools; at most one more than the list shows."""
    names = submission_leaves(actor).values_list("name", "subpool_name")[: MAX_POOL_CHOICES + 1]
    return [(name, f"{SUBPOOL_PREFIX}{name}" if short else name) for name, short in names]


def _initial_values(request: HttpRequest, actor: Actor) -> dict[str, Any]:
    """The pool of the link to this page; the file of a workflow that is submitted again."""
    initial: dict[str, Any] = {"pool": request.GET.get("pool", ""), "priority": "", "file": ONE_TASK}
    if name := request.GET.get("like"):
        try:
            original = get_visible_workflow(actor, name)
        except NotFound:
            also_say(request.GET, lambda: [unread_filter("like", "there is no such workflow that you may see.")])
            return initial
        if find_observed_object(original) is not None:  # it has no workflow file
            return initial | {"pool": original.pool.name, "priority": original.priority}
        initial |= {
            "pool": original.pool.name,
            "priority": original.priority,
            "file": original.template_spec or original.spec,
        }
    return initial


def _with_example(request: HttpRequest) -> dict[str, Any]:
    """The input with the chosen example as its file."""
    typed = {name: request.POST.get(name, "") for name in SubmitForm.base_fields if name != "upload"}
    _, text = EXAMPLES.get(typed["example"], ("", typed["file"]))
    return {**typed, "file": text}


def _with_uploaded_text(form: SubmitForm) -> SubmitForm:
    """The same form with the uploaded file's text in its text field, because a browser does not send a file twice."""
    if form.cleaned_data.get("upload") is not None:
        form.replace_input("file", form.cleaned_data.get("file", ""))
    return form


def _file_faults(refusal: DomainError, submission: Submission) -> list[FileFault]:
    lines, found = submission.file.splitlines(), []
    for each in refusal.details:
        text = lines[each.line - 1].strip() if each.line and each.line <= len(lines) else ""
        place = each.path
        if variable := re.fullmatch(r"set_variables\[(\d+)\]", place):
            text, place = submission.set_variables[int(variable[1])], str(_SUBMITTED["set_variables"].label)
        found.append(FileFault(each.line, text[:120], place, each.message))
    return found


def _render(admin: PolicyAdmin, request: HttpRequest, form: SubmitForm, **context: Any) -> HttpResponse:
    refused = bool(form.errors) or "refusal" in context
    is_typed = isinstance(form, TypedPoolForm)
    return admin.render_page(
        request,
        "osmo/submit.html",
        title="Submit a workflow",
        crumbs=[("Workflows", reverse("admin:scheduling_workflow_changelist"))],
        form=form,
        way_columns=WAY_COLUMNS,
        examples=EXAMPLES,
        script=forms.script_media("submit", *(["picker"] if is_typed else [])),
        status=400 if refused else 200,
        **context,
    )
