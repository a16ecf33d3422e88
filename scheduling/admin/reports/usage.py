"""The page of the record of use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from django.contrib import admin
from django.db.models import F
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.text import slugify

from pools.admin.base import PolicyAdmin, actor_of
from pools.domain.names import readable_name
from pools.domain.people.roles import Actor
from pools.models import Pool
from pools.representations.csv_files import csv_response, is_csv_request
from pools.representations.page_parameters import also_say, read_choice
from scheduling.domain.list_columns import POOL_LOSS_COLUMNS
from scheduling.domain.lists import NO_KEY, Bucket, UsageKey
from scheduling.models import UsageProgress
from scheduling.selectors.usage.answers import LostShare, UsageRow
from scheduling.selectors.usage.by_workflow import MAX_WORKFLOW_WINDOW
from scheduling.selectors.usage.charts import CAUSE_TITLES, usage_charts
from scheduling.selectors.usage.periods import (
    PERIODS,
    chosen_period,
    chosen_window,
    day_text,
    offered_months,
    shown_day,
    window_of,
)
from scheduling.selectors.usage.reading import read_usages
from scheduling.selectors.work.leaf_names import leaf_names_of
from scheduling.templatetags.usage import USAGE_COLUMNS, gpu_hours, usage_texts

MAX_ROWS_SHOWN = 100
MAX_LOSSES_SHOWN = 12
LOSSES = "losses"
"""The value of `table` in the address of the file of lost work."""
MAX_POOLS_SUGGESTED = 200


@admin.register(UsageProgress)
class UsageAdmin(PolicyAdmin):
    """What was used, lent, idle and waited for, as far as the reader may see it."""

    address = "usage"

    def show_list(self, request: HttpRequest) -> HttpResponse:
        actor, now, query = actor_of(request), timezone.now(), request.GET
        wanted, fault = chosen_window(query, now)
        also_say(query, lambda: [fault] if fault else [])
        key = UsageKey(read_choice(query, "by", UsageKey, UsageKey.POOL))
        is_too_long = key is UsageKey.WORKFLOW and wanted.until - wanted.since > MAX_WORKFLOW_WINDOW
        window = window_of(chosen_period(None, "30d"), now) if is_too_long else wanted
        pool, user = query.get("pool", "").strip(), query.get("user", "").strip()
        leaves = leaf_names_of(actor, pool) if pool else []
        users = [user] if user else []
        drawn = window.question(UsageKey.BACKEND, leaves, users)
        answer, listed = read_usages(actor, [drawn, replace(drawn, by=key, bucket=Bucket.MONTH)])
        rows = _rows_by_key(listed.rows)
        is_of_losses = read_choice(query, "table", [LOSSES]) == LOSSES
        if is_csv_request(request):
            about = LOSSES if is_of_losses else "usage"
            name = "-".join(filter(None, [about, slugify(pool), slugify(user), window.file_name]))
            return losses_file(name, answer.losses) if is_of_losses else usage_file(name, key, rows)
        return self.render_page(
            request,
            "osmo/usage.html",
            title="Usage",
            charts=usage_charts(answer, window),
            totals=answer.totals,
            parts=[each.totals for each in answer.by_part()],
            losses=answer.losses[:MAX_LOSSES_SHOWN],
            more_losses=len(answer.losses) - MAX_LOSSES_SHOWN,
            loss_columns=POOL_LOSS_COLUMNS,
            rows=rows[:MAX_ROWS_SHOWN],
            row_count=len(rows),
            max_days=MAX_WORKFLOW_WINDOW.days if is_too_long else None,
            window=window,
            read_at=now,
            periods=PERIODS,
            months=offered_months(now),
            since=shown_day(query.get("since", "")),
            until=shown_day(query.get("until", "")),
            example_day=day_text(window.since),
            by=key,
            no_key=NO_KEY.get(key, "none"),
            keys=_offered_keys(actor),
            pool=pool,
            username=user,
            pools=_suggested_pools(actor),
            causes=[
                (title, waited)
                for cause, title in CAUSE_TITLES.items()
                if (waited := answer.totals.sums[f"waiting_{cause}"])
            ],
        )


def usage_file(name: str, key: UsageKey, rows: list[UsageRow]) -> HttpResponse:
    """The table of the page as a CSV file: its rows, its columns and its numbers, and no row is left out."""
    columns = [key.capitalize(), *(number.heading for number in USAGE_COLUMNS.values())]
    lines = []
    for row in rows:
        texts = usage_texts(row)
        subject = ("" if row.subject else NO_KEY.get(key, "none")) + readable_name(row.key or "")
        lines.append([subject, *(_plain(texts[column]) for column in USAGE_COLUMNS)])
    return csv_response(name, columns, lines)


def losses_file(name: str, losses: Sequence[LostShare]) -> HttpResponse:
    """The table of lost work as a CSV file, and no row is left out."""
    columns = [column.heading for column in POOL_LOSS_COLUMNS.values()]
    lines = (
        [
            f"{each.pool}/{each.part}".rstrip("/"),
            each.rule,
            each.taken_by,
            each.attempts,
            _plain(gpu_hours(each.gpu_ms)),
        ]
        for each in losses
    )
    return csv_response(name, columns, lines)


def _plain(text: str) -> float | int | None:
    """A shown number as a number."""
    digits = text.replace("\N{NARROW NO-BREAK SPACE}", "")
    return None if digits == "–" else float(digits) if "." in digits else int(digits)


def _offered_keys(actor: Actor) -> list[UsageKey]:
    """Without quotas by flavor there is one row by flavor, so it is not offered."""
    has_flavors = Pool.objects.visible_to(actor).exclude(flavors=[]).exists()
    return [key for key in UsageKey if has_flavors or key is not UsageKey.FLAVOR]


def _suggested_pools(actor: Actor) -> list[str]:
    """Names for the filter by pool, pools before subpools: a page does not carry thousands of names."""
    rows = Pool.objects.visible_to(actor).not_archived().order_by(F("parent").asc(nulls_first=True), "name")
    return list(rows.values_list("name", flat=True)[:MAX_POOLS_SUGGESTED])


def _rows_by_key(rows: list[UsageRow]) -> list[UsageRow]:
    """One row for each key, the largest use first."""
    found: dict[tuple[str | None, str], UsageRow] = {}
    for row in rows:
        empty = UsageRow(row.start, row.key, dict.fromkeys(row.sums), part=row.part)
        found.setdefault((row.key, row.part), empty).add(row)
    return sorted(found.values(), key=lambda row: (-row.used, row.key or "", row.part))
