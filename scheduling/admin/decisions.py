"""Scheduler events: starts, moves, preemptions and reclaims, each with the workflow that caused it."""

from __future__ import annotations

from django.contrib import admin
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from pools.admin.base import PolicyAdmin, actor_of
from pools.admin.paging import ROWS_PER_PAGE, ListPage, parse_page_number
from scheduling.admin.filters import DecisionPageFilterSet
from scheduling.domain.timelines.event_lanes import draw_lanes
from scheduling.models import Decision
from scheduling.selectors.work.decisions import list_decisions
from scheduling.templatetags.gangs import EVENT_LABELS


@admin.register(Decision)
class DecisionAdmin(PolicyAdmin):
    """Read-only, like the table itself."""

    def show_list(self, request: HttpRequest) -> HttpResponse:
        actor, filters = (
            actor_of(request),
            DecisionPageFilterSet(request, Decision.objects.visible_to(actor_of(request))),
        )
        number = parse_page_number(request.GET.get("page"))
        rows, more = list_decisions(actor, filters.qs, limit=ROWS_PER_PAGE, offset=(number - 1) * ROWS_PER_PAGE)
        return self.render_page(
            request,
            "osmo/scheduler_events.html",
            title="Scheduler events",
            filters=filters,
            window=ListPage(rows, number, number + 1 if more else 0),
            chart=draw_lanes(rows),
            event_labels=list(EVENT_LABELS.items()),
        )

    def show_object(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return HttpResponseRedirect(reverse("admin:scheduling_decision_changelist"))
