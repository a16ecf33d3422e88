"""Scheduler events: starts, moves, preemptions and reclaims, each with the workflow that caused it."""

from __future__ import annotations

from django.contrib import admin
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from pools.admin import forms
from pools.admin.base import PolicyAdmin, actor_of
from pools.admin.paging import ROWS_PER_PAGE, ListPage, parse_page_number
from scheduling import pages
from scheduling.models import Decision
from scheduling.selectors.decisions import list_decisions
from scheduling.templatetags.gangs import EVENT_LABELS


class DecisionFilterForm(forms.FilterForm):
    """Which decisions to show."""

    first = ("pool", "workflow", "action")
    pool = forms.text_field("Pool or subpool", placeholder="team or team--a")
    workflow = forms.text_field("Workflow", placeholder="hello-1: its own events, and those that it caused")
    action = forms.choice_field("Event", [("", "any"), *EVENT_LABELS.items()], required=False)


@admin.register(Decision)
class DecisionAdmin(PolicyAdmin):
    """Read-only, like the table itself."""

    def show_list(self, request: HttpRequest) -> HttpResponse:
        actor, filters = actor_of(request), DecisionFilterForm(request.GET)
        number = parse_page_number(request.GET.get("page"))
        pool, action = filters.value("pool"), filters.value("action")
        rows, more = list_decisions(
            actor,
            pools=pages.leaves_meant(actor, pool) if pool else (),
            workflow=filters.value("workflow") or "",
            action=action if action in Decision.Action.values else "",
            limit=ROWS_PER_PAGE,
            offset=(number - 1) * ROWS_PER_PAGE,
        )
        return self.render_page(
            request,
            "osmo/scheduler_events.html",
            title="Scheduler events",
            filters=filters,
            window=ListPage(rows, number, number + 1 if more else 0),
        )

    def show_object(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return HttpResponseRedirect(reverse("admin:scheduling_decision_changelist"))
