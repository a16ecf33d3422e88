"""The page of the record of use."""

from __future__ import annotations

from dataclasses import replace

from django.contrib import admin
from django.db.models import F
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from pools.admin.base import PolicyAdmin, actor_of
from pools.domain.people.roles import Actor
from pools.models import Pool
from scheduling.domain.lists import Bucket, UsageKey
from scheduling.models import UsageProgress
from scheduling.selectors.reports.usage import (
    MAX_WORKFLOW_WINDOW,
    UsageRow,
    read_usages,
)
from scheduling.selectors.reports.usage_charts import (
    CAUSE_TITLES,
    PERIODS,
    chosen_period,
    question_of_period,
    usage_charts,
)
from scheduling.selectors.work.leaf_names import leaf_names_of

MAX_ROWS_SHOWN = 100
MAX_POOLS_SUGGESTED = 200


@admin.register(UsageProgress)
class UsageAdmin(PolicyAdmin):
    """What was used, lent, idle and waited for, as far as the reader may see it."""

    address = "usage"

    def show_list(self, request: HttpRequest) -> HttpResponse:
        actor, now = actor_of(request), timezone.now()
        wanted = chosen_period(request.GET.get("period"), "30d")
        text = request.GET.get("by", "")
        key = UsageKey(text) if text in set(UsageKey) else UsageKey.POOL
        is_too_long = key is UsageKey.WORKFLOW and wanted.length > MAX_WORKFLOW_WINDOW
        period = chosen_period(None, "30d") if is_too_long else wanted
        pool, user = request.GET.get("pool", "").strip(), request.GET.get("user", "").strip()
        leaves = leaf_names_of(actor, pool) if pool else []
        users = [user] if user else []
        drawn = question_of_period(period, now, by=UsageKey.BACKEND, pools=leaves, users=users)
        answer, listed = read_usages(actor, [drawn, replace(drawn, by=key, bucket=Bucket.MONTH)])
        rows = _rows_by_key(listed.rows)
        return self.render_page(
            request,
            "osmo/usage.html",
            title="Usage",
            charts=usage_charts(answer),
            totals=answer.totals,
            rows=rows[:MAX_ROWS_SHOWN],
            row_count=len(rows),
            csv_bucket=Bucket.MONTH if key is UsageKey.WORKFLOW else drawn.bucket,
            max_days=MAX_WORKFLOW_WINDOW.days if is_too_long else None,
            since=drawn.since,
            until=now,
            period=period,
            periods=PERIODS,
            by=key,
            keys=list(UsageKey),
            pool=pool,
            username=user,
            pools=_suggested_pools(actor),
            causes=[(title, answer.totals.sums[f"waiting_{cause}"]) for cause, title in CAUSE_TITLES.items()],
        )


def _suggested_pools(actor: Actor) -> list[str]:
    """Names for the filter by pool, pools before subpools: a page does not carry thousands of names."""
    rows = Pool.objects.visible_to(actor).not_archived().order_by(F("parent").asc(nulls_first=True), "name")
    return list(rows.values_list("name", flat=True)[:MAX_POOLS_SUGGESTED])


def _rows_by_key(rows: list[UsageRow]) -> list[UsageRow]:
    """One row for each key, the largest use first."""
    found: dict[str | None, UsageRow] = {}
    for row in rows:
        total = found.setdefault(row.key, UsageRow(row.start, row.key, dict.fromkeys(row.sums)))
        for column, value in row.sums.items():
            if value is not None:
                total.sums[column] = (total.sums[column] or 0) + value
    return sorted(found.values(), key=lambda row: (-row.used, row.key or ""))
