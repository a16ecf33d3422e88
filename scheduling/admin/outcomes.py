"""What was said about the future, and what came of it: the list on a page and as a file."""

from __future__ import annotations

from dataclasses import replace

from django.contrib import admin
from django.http import HttpRequest, HttpResponse

from pools.admin.base import PolicyAdmin, actor_of
from pools.admin.forms import script_media
from pools.admin.paging import ROWS_PER_PAGE, ListPage, parse_page_number
from pools.representations.csv_files import MAX_CSV_ROWS, is_csv_request, list_csv
from pools.representations.page_parameters import read_choice
from scheduling.domain.list_columns import OUTCOME_COLUMNS
from scheduling.domain.lists import OutcomeQuery
from scheduling.domain.promised_starts import PromiseOutcome
from scheduling.history.starts.forecast_record import read_forecast_record
from scheduling.models import ShownEffect
from scheduling.selectors.status.outcomes import list_outcomes


@admin.register(ShownEffect)
class OutcomeAdmin(PolicyAdmin):
    """Everybody sees the starts of work that they may see, and the previews of their own changes."""

    address = "activity/outcomes"

    def show_list(self, request: HttpRequest) -> HttpResponse:
        actor, typed = actor_of(request), read_choice(request.GET, "outcome", PromiseOutcome)
        chosen = PromiseOutcome(typed) if typed else None
        query = OutcomeQuery(outcome=chosen, limit=ROWS_PER_PAGE)
        if is_csv_request(request):
            rows, _ = list_outcomes(actor, replace(query, limit=MAX_CSV_ROWS))
            return list_csv("outcomes", OUTCOME_COLUMNS, rows)
        number = parse_page_number(request.GET.get("page"))
        rows, more = list_outcomes(actor, replace(query, offset=(number - 1) * ROWS_PER_PAGE))
        return self.render_page(
            request,
            "osmo/outcomes.html",
            title="What came true",
            script=script_media("columns"),
            columns=OUTCOME_COLUMNS,
            window=ListPage(rows, number, number + 1 if more else 0),
            chosen=chosen,
            outcomes=list(PromiseOutcome),
            record=read_forecast_record(),
        )
