"""The page of the record of use."""

from __future__ import annotations

from django.contrib import admin
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone

from pools.admin.base import PolicyAdmin, actor_of
from pools.models import Pool
from scheduling.models import UsageProgress
from scheduling.selectors.leaf_names import leaf_names_of
from scheduling.selectors.usage import Bucket, UsageKey, UsageQuestion, UsageRow, read_usage
from scheduling.selectors.usage_charts import (
    CAUSE_TITLES,
    PERIODS,
    chosen_period,
    question_of_period,
    read_usage_charts,
)

KEYS = tuple(key for key in UsageKey if key is not UsageKey.WORKFLOW)


@admin.register(UsageProgress)
class UsageAdmin(PolicyAdmin):
    """What was used, lent, idle and waited for, as far as the reader may see it."""

    def show_list(self, request: HttpRequest) -> HttpResponse:
        actor, now = actor_of(request), timezone.now()
        period = chosen_period(request.GET.get("period"), "30d")
        text = request.GET.get("by", "")
        key = UsageKey(text) if text in KEYS else UsageKey.POOL
        pool, user = request.GET.get("pool", "").strip(), request.GET.get("user", "").strip()
        leaves = leaf_names_of(actor, pool) if pool else []
        users = [user] if user else []
        drawn = question_of_period(period, now, by=UsageKey.BACKEND, pools=leaves, users=users)
        answer, charts = read_usage_charts(actor, drawn)
        listed = UsageQuestion(drawn.since, now, key, Bucket.MONTH, leaves, users)
        rows = _rows_by_key(read_usage(actor, listed).rows)
        return self.render_page(
            request,
            "osmo/usage.html",
            title="Usage",
            charts=charts,
            totals=answer.totals,
            rows=rows,
            since=drawn.since,
            until=now,
            bucket=drawn.bucket,
            period=period,
            periods=PERIODS,
            by=key,
            keys=KEYS,
            pool=pool,
            user=user,
            pools=Pool.objects.visible_to(actor).not_archived().in_tree_order().values_list("name", flat=True),
            causes=[(title, answer.totals.sums[f"waiting_{cause}"]) for cause, title in CAUSE_TITLES.items()],
        )

    def show_object(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return HttpResponseRedirect(reverse("admin:scheduling_usageprogress_changelist"))


def _rows_by_key(rows: list[UsageRow]) -> list[UsageRow]:
    """One row for each key, the largest use first."""
    found: dict[str | None, UsageRow] = {}
    for row in rows:
        total = found.setdefault(row.key, UsageRow(row.start, row.key, dict.fromkeys(row.sums)))
        for column, value in row.sums.items():
            if value is not None:
                total.sums[column] = (total.sums[column] or 0) + value
    return sorted(found.values(), key=lambda row: (-row.used, row.key or ""))
