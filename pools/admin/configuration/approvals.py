"""Requests for approval by a second person: the list, one request, and the pages that decide it."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib import admin
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse

from pools.admin import forms
from pools.admin.base import PolicyAdmin, actor_of
from pools.admin.command_forms import CommandForm, form_for
from pools.admin.configuration.pool_tree_preview import PoolTreePreview, pool_url
from pools.admin.confirm_flow import Change, ConfirmFlow, change_paths
from pools.admin.paging import paginate
from pools.domain.approvals import ApprovalState
from pools.domain.changes.approvals import ApprovalDecision, Approve, Reject, Withdraw
from pools.domain.list_columns import APPROVAL_COLUMNS
from pools.domain.values.amounts import words_of_any
from pools.domain.values.counting import counted
from pools.models import ApprovalRequest, Pool
from pools.representations.approval import approval_body
from pools.representations.page_parameters import read_choice
from pools.services.configuration.approvals import approve, get_request, list_requests, reject, withdraw

EVERY_STATE = "all"


@admin.register(ApprovalRequest)
class ApprovalAdmin(PolicyAdmin):
    """Everybody sees the own requests, pool admins those of their pools."""

    address = "activity/approvals"

    def extra_urls(self) -> list[URLPattern]:
        return [
            *change_paths(
                "activity/approvals/<int:approval>/approve",
                self.protect(self._approve),
                name="pools_approvalrequest_approve",
            ),
            path(
                "activity/approvals/<int:approval>/reject",
                self.protect(self._reject),
                name="pools_approvalrequest_reject",
            ),
            path(
                "activity/approvals/<int:approval>/withdraw",
                self.protect(self._withdraw),
                name="pools_approvalrequest_withdraw",
            ),
        ]

    def show_list(self, request: HttpRequest) -> HttpResponse:
        actor, rows = actor_of(request), list_requests(actor_of(request))
        chosen = read_choice(request.GET, "state", [*ApprovalState, EVERY_STATE], ApprovalState.WAITING)
        if chosen != EVERY_STATE:
            rows = rows.filter(state=chosen)
        window = paginate(rows, request.GET.get("page"))
        return self.render_page(
            request,
            "osmo/approvals.html",
            title="Approvals",
            columns=APPROVAL_COLUMNS,
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
        pool = Pool.objects.select_related("backend").filter(pk=row.pool_id_then).first()
        return self.render_page(
            request,
            "osmo/approval.html",
            title=f"Request {row.pk}",
            crumbs=[("Approvals", _list_address())],
            approval=approval_body(row, actor),
            limit=counted(row.above, *words_of_any(pool.gpu_flavors, pool.part_flavors) if pool else ("GPU", "GPUs")),
        )

    def _approve(self, request: HttpRequest, approval: int) -> HttpResponse:
        actor = actor_of(request)
        row = get_request(actor, approval)
        pool = Pool.objects.roots().filter(pk=row.pool_id_then, name=row.pool).first()

        change = Change(
            title=f"Approve request {row.pk}",
            button=f"Approve the change of {row.subject}",
            breadcrumbs=_breadcrumbs(row),
            form_class=form_for(Approve, approval=row.pk),
            preview=PoolTreePreview(
                actor=actor,
                pool=pool,
                root_name=row.pool,
                changes_configuration=row.changes_pool,
            ),
            service=approve,
            success_message=f"The change of {row.subject} that {row.requested_by} requested was made.",
            success_url=_address_after,
        )
        return ConfirmFlow(self, request, change).respond()

    def _reject(self, request: HttpRequest, approval: int) -> HttpResponse:
        row = get_request(actor_of(request), approval)
        lead = f"{row.subject} stays as it is, and {row.requested_by} sees your reason."
        return self._end(request, row, Reject, reject, lead)

    def _withdraw(self, request: HttpRequest, approval: int) -> HttpResponse:
        row = get_request(actor_of(request), approval)
        return self._end(request, row, Withdraw, withdraw, f"{row.subject} stays as it is; you can ask again.")

    def _end(
        self,
        request: HttpRequest,
        row: ApprovalRequest,
        kind: type[ApprovalDecision],
        service: Callable[..., ApprovalRequest],
        lead: str,
    ) -> HttpResponse:
        form = CommandForm(kind, {"approval": row.pk}, forms.submitted_data(request))

        def end() -> HttpResponse:
            ended = service(form.command(), actor=actor_of(request), description=form.cleaned_data["description"])
            self.show_success(request, f"Request {row.pk} is {ended.state}.")
            return HttpResponseRedirect(_list_address())

        verb = kind.__name__
        return self.change_by_form(
            request,
            form,
            end,
            title=f"{verb} request {row.pk}",
            button=f"{verb} the request",
            crumbs=_breadcrumbs(row),
            lead=lead,
        )


def _address_after(row: ApprovalRequest) -> str:
    """The page after an approval: that of the pool, if it is there."""
    return pool_url(row.pool) if Pool.objects.filter(name=row.pool).exists() else _address(row)


def _breadcrumbs(row: ApprovalRequest) -> list[tuple[str, str]]:
    return [("Approvals", _list_address()), (f"Request {row.pk}", _address(row))]


def _address(row: ApprovalRequest) -> str:
    return reverse("admin:pools_approvalrequest_change", args=[row.pk])


def _list_address() -> str:
    return reverse("admin:pools_approvalrequest_changelist")
