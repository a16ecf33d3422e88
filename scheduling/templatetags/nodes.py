"""Template tags of nodes."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django import template
from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from pools.templatetags.osmo import span
from scheduling.selectors.cluster.node_map import MappedNode
from scheduling.selectors.cluster.node_tiles import NodeTile, TileMap

register = template.Library()

NAMED_TILES = 150
"""Above this number of nodes the tiles are small and have no names."""
_NAME = "NAME"  # replaced in an address, which is then made once for all nodes

_BAR = '<div class="oa-bar oa-gpus{}" style="--gpus:{}" aria-hidden="true">{}</div>'
_PART = '<span class="oa-part--{}" style="flex-grow:{}" title="{}"></span>'


@register.simple_tag
def gpu_bar(node: MappedNode) -> SafeString:
    """The GPUs of a node: one part for each workflow, then hidden and foreign work, unusable and free GPUs. The text
    next to the bar has the same numbers."""
    parts = [
        ("low" if each.priority == "LOW" else "inside", each.gpus, f"{each.workflow}: {each.gpus}")
        for each in node.work
    ]
    parts += [
        ("unseen", node.unseen_gpus, f"work of other pools: {node.unseen_gpus}"),
        ("ending", node.usage.ending_gpus, f"pods that end or start: {node.usage.ending_gpus}"),
        ("other", node.usage.other_gpus, f"pods outside OSMO Admin: {node.usage.other_gpus}"),
        ("closed", node.closed_gpus, f"unusable: {node.closed_gpus}"),
        ("free", node.usage.free_gpus, f"free: {node.usage.free_gpus}"),
    ]
    segments = format_html_join("", _PART, [part for part in parts if part[1]])
    return format_html(_BAR, "" if segments else " oa-bar--empty", max(1, node.usage.gpus), segments)


@register.simple_tag
def node_tiles(drawn: TileMap, backend: str) -> SafeString:
    """The tiles, each a link to its node with a cell for each GPU. Built in Python because a map has thousands of
    cells; a tile costs some 300 bytes."""
    address = reverse("admin:pools_node_page", args=[backend, _NAME])
    most = max((tile.node.usage.gpus for tile in drawn.tiles), default=0)
    classes = ["oa-tiles"]
    if len(drawn.tiles) > NAMED_TILES:
        classes.append("oa-tiles--small")
    if most > 8:
        classes.append("oa-tiles--wide")
    tiles = "".join(_tile(tile, address) for tile in drawn.tiles)
    return mark_safe(f'<ul class="{" ".join(classes)}">{tiles}</ul>')  # noqa: S308  escaped in _tile


def _tile(tile: NodeTile, address: str) -> str:
    name = escape(tile.node.usage.name)
    cells = "".join(f'<i class="oa-part--{shade}"></i>' * gpus for shade, gpus in tile.cells)
    closed = "" if tile.node.usage.ready else ' class="oa-tile--closed"'
    return (
        f'<li{closed}><a href="{address.replace(_NAME, name)}" title="{escape(tile.title)}">'
        f"<span>{cells}</span>{name}</a></li>"
    )


@register.filter
def tile_details(drawn: TileMap) -> dict[str, list[Any]]:
    """The card of each node, for the script: its state, the work that the reader may see, and other sentences."""
    now = timezone.now()
    return {
        tile.node.usage.name: [
            "not ready" if not tile.node.usage.ready else f"{tile.node.usage.free_gpus} free",
            [
                [each.workflow, each.pool, each.user, each.priority, each.gpus, _length(each.since, now)]
                for each in tile.node.work
            ],
            [*tile.other_texts, *tile.node.usage.notes],
        ]
        for tile in drawn.tiles
    }


def _length(since: datetime | None, now: datetime) -> str:
    return "–" if since is None else span(max((now - since).total_seconds(), 1))
