"""Requests for approval by a second person: the list, one request, and the pages that decide it."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib import admin
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse

from pools.admin import forms
from pools.admin.base import PolicyAdmin, actor_of
from pools.admin.confirm_flow import REASON_HELP, Change, ChangeForm, ConfirmFlow, change_paths
from pools.admin.paging import paginate
from pools.admin.pool_tree_preview import PoolTreePreview, pool_url
from pools.domain.approvals import ApprovalState
from pools.domain.errors import DomainError
from pools.models import ApprovalRequest, Pool
from pools.representations.approval import approval_body
from pools.services.approvals import approve, get_request, list_requests, reject, withdraw


class DecisionForm(ChangeForm):
    """The reason of a decision."""

    description = forms.text_field("Reason", help_text=REASON_HELP)


@dataclass(frozen=True, slots=True)
class ApprovalResult:
    """An approved request."""

    row: ApprovalRequest
    warnings: tuple[str, ...] = ()


@admin.register(ApprovalRequest)
class ApprovalAdmin(PolicyAdmin):
    """Everybody sees the own requests, pool admins those of their pools."""

    def extra_urls(self) -> list[URLPattern]:
        return [
            *change_paths("<int:approval>/approve/", self.protect(self._approve), name="pools_approvalrequest_approve"),
            path("<int:approval>/reject/", self.protect(self._reject), name="pools_approvalrequest_reject"),
            path("<int:approval>/withdraw/", self.protect(self._withdraw), name="pools_approvalrequest_withdraw"),
        ]

    def show_list(self, request: HttpRequest) -> HttpResponse:
        actor, chosen = actor_of(request), request.GET.get("state", ApprovalState.WAITING)
        rows = list_requests(actor)
        if chosen in set(ApprovalState):
            rows = rows.filter(state=chosen)
        window = paginate(rows, request.GET.get("page"))
        return self.render_page(
            request,
            "osmo/approvals.html",
            title="Approvals",
            window=window,
            approvals=[approval_body(row, actor) for row in window.rows],
            chosen=chosen,
            states=list(ApprovalState),
        )

    def show_object(self, request: HttpRequest, object_id: str) -> HttpResponse:
        if not (object_id.isascii() and object_id.isdigit() and len(object_id) < 18):
            raise Http404
        actor = actor_of(request)
        row = get_request(actor, int(object_id))
        return self.render_page(
            request,
            "osmo/approval.html",
            title=f"Request {row.pk}",
            crumbs=[("Approvals", _list_address())],
            approval=approval_body(row, actor),
        )

    def _approve(self, request: HttpRequest, approval: int) -> HttpResponse:
        actor = actor_of(request)
        row = get_request(actor, approval)
        pool = Pool.objects.roots().filter(pk=row.pool_id_then, name=row.pool).first()

        def execute(form: ChangeForm, version: int | None) -> ApprovalResult:
            return ApprovalResult(approve(actor=actor, pk=row.pk, note=form.cleaned_data["description"]))

        change = Change(
            title=f"Approve request {row.pk}",
            button=f"Approve the change of {row.subject}",
            breadcrumbs=_breadcrumbs(row),
            form_class=DecisionForm,
            preview=PoolTreePreview(
                actor=actor,
                pool=pool,
                root_name=row.pool,
                changes_configuration=row.changes_pool,
            ),
            execute=execute,
            success_message=f"The change of {row.subject} that {row.requested_by} asked for was made.",
            success_url=lambda _: pool_url(row.pool) if Pool.objects.filter(name=row.pool).exists() else _address(row),
        )
        return ConfirmFlow(self, request, change).respond()

    def _reject(self, request: HttpRequest, approval: int) -> HttpResponse:
        row = get_request(actor_of(request), approval)
        lead = f"{row.subject} stays as it is, and {row.requested_by} sees your reason."
        return self._end(request, row, "reject", lead)

    def _withdraw(self, request: HttpRequest, approval: int) -> HttpResponse:
        row = get_request(actor_of(request), approval)
        return self._end(request, row, "withdraw", f"{row.subject} stays as it is; you can ask again.")

    def _end(self, request: HttpRequest, row: ApprovalRequest, verb: str, lead: str) -> HttpResponse:
        form = DecisionForm(forms.submitted_data(request))
        if request.method == "POST" and form.is_valid():
            service = {"reject": reject, "withdraw": withdraw}[verb]
            try:
                ended = service(actor=actor_of(request), pk=row.pk, note=form.cleaned_data["description"])
            except DomainError as refusal:
                form.add_errors(refusal)
            else:
                self.show_success(request, f"Request {row.pk} is {ended.state}.")
                return HttpResponseRedirect(_list_address())
        return self.render_form_page(
            request,
            form,
            title=f"{verb.capitalize()} request {row.pk}",
            button=f"{verb.capitalize()} the request",
            crumbs=_breadcrumbs(row),
            lead=lead,
        )


def _breadcrumbs(row: ApprovalRequest) -> list[tuple[str, str]]:
    return [("Approvals", _list_address()), (f"Request {row.pk}", _address(row))]


def _address(row: ApprovalRequest) -> str:
    return reverse("admin:pools_approvalrequest_change", args=[row.pk])


def _list_address() -> str:
    return reverse("admin:pools_approvalrequest_changelist")
