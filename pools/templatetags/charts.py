"""Template tags of charts over time.

    {% load charts %}
    {% chart each %}        a `pools.representations.charts.Chart`: the picture, its legend and its table
    {% chart_files %}       once, after the last chart: the files that draw, from our own host

Without the script, and in print, the table is the chart.
"""

from __future__ import annotations

from typing import Any

from django import template

from pools.representations.charts import Chart, chart_time

register = template.Library()


@register.inclusion_tag("osmo/parts/chart.html")
def chart(drawn: Chart) -> dict[str, Any]:
    """A chart with its legend and its table."""
    rows = [(chart_time(at), texts) for at, texts in drawn.table_rows]
    return {"chart": drawn, "rows": rows, "left_out": len(drawn.times) - len(rows)}


@register.inclusion_tag("osmo/parts/chart_files.html")
def chart_files() -> dict[str, Any]:
    """The style sheets and scripts of charts."""
    return {}
