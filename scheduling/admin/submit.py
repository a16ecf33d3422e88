"""Submitting a workflow file or a PodGroup: paste or upload, see what it would do or every fault with its line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import Q
from django.forms import FileField
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from unfold.widgets import UnfoldAdminFileFieldWidget

from pools.admin import forms
from pools.admin.policy import PolicyAdmin, actor_of
from pools.domain.errors import DomainError, Forbidden, NotFound
from pools.domain.lifecycle import SubpoolState
from pools.domain.roles import Action, Actor
from pools.models import Pool
from scheduling.domain.priorities import Priority
from scheduling.selectors.workflows import visible_workflow
from scheduling.services.workflows.submission import Submission, check, submit

LARGEST_FILE = 1024 * 1024
LONGEST_LIST = 300  # more pools than that are typed, not chosen
BRANCH = "\N{NO-BREAK SPACE}\N{NO-BREAK SPACE}└ "
EXAMPLE = """\
workflow:
  name: hello
  resources:
    default:
      gpu: 1
      cpu: 4
      memory: 16Gi
      storage: 10Gi
  tasks:
  - name: train
    image: ubuntu:24.04
    command: [bash, -c]
    args: ["echo hello"]
"""
PRIORITIES = [
    ("", "As the file says; NORMAL if it says nothing"),
    (Priority.NORMAL, "NORMAL: inside the quota, never taken back"),
    (Priority.HIGH, "HIGH: as NORMAL, and starts first"),
    (Priority.LOW, "LOW: may go over quota, may be taken back"),
]


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a file, with the line it stands in."""

    line: int | None
    text: str
    path: str
    message: str


class SubmitForm(forms.HouseForm):
    """A file and where it shall run."""

    pool = forms.choice("Pool or slice")
    priority = forms.choice("Priority", PRIORITIES, required=False)
    upload = FileField(
        label="Upload a file", required=False, widget=UnfoldAdminFileFieldWidget(), help_text="Replaces the text below."
    )
    file = forms.code("Workflow or PodGroup (YAML or JSON)", rows=18)
    variables = forms.code(
        "Template variables",
        rows=2,
        longest=forms.LONGEST_TEXT,
        help_text="One NAME=VALUE a line, over the file's default-values.",
    )

    def __init__(self, *args: Any, pools: list[tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if len(pools) > LONGEST_LIST:
            self.fields["pool"] = forms.text("Pool or slice", help_text="Its exact name.", required=True)
        else:
            self.fields["pool"].choices = pools  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        upload = data.get("upload")
        if upload is not None:
            data["file"] = self._read(upload)
        data["file"] = data.get("file", "").replace("\r\n", "\n")  # browsers send lines like that; files have \n
        if not data["file"].strip() and not self.errors:
            self.add_error("file", "Upload a workflow file, or paste one here.")
        return data

    def _read(self, upload: Any) -> str:
        if upload.size > LARGEST_FILE:
            self.add_error(
                "upload", f"{upload.name} has {upload.size} bytes; a workflow file has at most {LARGEST_FILE}."
            )
            return ""
        try:
            return str(upload.read().decode("utf-8-sig"))
        except UnicodeDecodeError:
            self.add_error("upload", f"{upload.name} is not a text in UTF-8.")
            return ""

    def submission(self) -> Submission:
        """What the service takes."""
        lines = [line.strip() for line in self.cleaned_data["variables"].splitlines() if line.strip()]
        return Submission(
            file=self.cleaned_data["file"],
            priority=Priority(self.cleaned_data["priority"]) if self.cleaned_data["priority"] else None,
            set_variables=tuple(lines),
        )


def submit_page(admin: PolicyAdmin, request: HttpRequest) -> HttpResponse:
    """Form, check, submit. What was pasted stays on the page until it is submitted."""
    actor = actor_of(request)
    pools = _pools(actor)
    if not pools:
        raise Forbidden(
            "You may not submit to any pool yet. Ask an osmo-admin for the role osmo-POOL-user of the pool you need."
        )
    if request.method != "POST":
        return _page(admin, request, SubmitForm(pools=pools, initial=_initial(request, actor)))
    form = SubmitForm(request.POST, request.FILES, pools=pools)
    if not form.is_valid():
        return _page(admin, request, _with_text(form))
    wanted = form.submission()
    deed = submit if request.POST.get("step") == "submit" else check
    try:
        receipt = deed(actor=actor, pool=form.cleaned_data["pool"], submission=wanted)
    except DomainError as refusal:
        return _page(admin, request, _with_text(form), faults=_faults(refusal, wanted.file), refusal=refusal)
    if receipt.workflow is not None:
        admin.say(request, f"{receipt.workflow.name} was submitted to {receipt.pool.name}.")
        return HttpResponseRedirect(reverse("admin:scheduling_workflow_change", args=[receipt.workflow.name]))
    return _page(admin, request, _with_text(form), receipt=receipt)


def _pools(actor: Actor) -> list[tuple[str, str]]:
    """Where this person may submit, each pool before its slices; at most one more than a list can hold."""
    rows = Pool.objects.visible_to(actor).listed().exclude(subpool_state=SubpoolState.DELETING).tree_order()
    if not actor.is_admin:
        allowed = actor.pools_for(Action.POOL_SUBMIT)
        rows = rows.filter(Q(name__in=allowed, parent__isnull=True) | Q(parent__name__in=allowed))
    names = rows.values_list("name", "subpool_name")[: LONGEST_LIST + 1]
    return [(name, f"{BRANCH}{name}" if short else name) for name, short in names]


def _initial(request: HttpRequest, actor: Actor) -> dict[str, Any]:
    """The pool of the link that led here; the file of a workflow that shall be sent again."""
    initial: dict[str, Any] = {"pool": request.GET.get("pool", ""), "priority": "", "file": EXAMPLE}
    if name := request.GET.get("like"):
        try:
            seen = visible_workflow(actor, name)
        except NotFound:
            return initial
        initial |= {"pool": seen.pool.name, "priority": seen.priority, "file": seen.template_spec or seen.spec}
    return initial


def _with_text(form: SubmitForm) -> SubmitForm:
    """The same form with an uploaded file's text in its text field: a browser does not send a file twice."""
    if form.cleaned_data.get("upload") is not None:
        form.retype("file", form.cleaned_data.get("file", ""))
    return form


def _faults(refusal: DomainError, text: str) -> list[Fault]:
    lines = text.splitlines()
    return [
        Fault(
            each.line,
            lines[each.line - 1].strip()[:120] if each.line and each.line <= len(lines) else "",
            each.path,
            each.message,
        )
        for each in refusal.details
    ]


def _page(admin: PolicyAdmin, request: HttpRequest, form: SubmitForm, **context: Any) -> HttpResponse:
    refused = bool(form.errors) or "refusal" in context
    return admin.page(
        request,
        "osmo/submit.html",
        title="Submit a workflow",
        crumbs=[("Workflows", reverse("admin:scheduling_workflow_changelist"))],
        form=form,
        status=400 if refused else 200,
        **context,
    )
