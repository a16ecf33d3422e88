"""Template tags of nodes."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django import template
from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from pools.templatetags.osmo import span
from scheduling.selectors.cluster.node_tiles import NodeTile, TileMap
from scheduling.selectors.cluster.nodes import NodeUsage

register = template.Library()

NAMED_TILES = 150
"""Above this number of nodes the tiles are small and have no names."""
_NAME = "NAME"  # replaced in an address, which is then made once for all nodes


@register.simple_tag
def node_cells(drawn: TileMap) -> SafeString:
    """The cells of the only node of a map; the table of its work says the same."""
    cells = "".join(_cells(tile) for tile in drawn.tiles)
    return mark_safe(f'<div class="oa-tiles oa-tiles--one" aria-hidden="true"><span>{cells}</span></div>')  # noqa: S308  names of shades


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
    closed = "" if tile.node.usage.ready else ' class="oa-tile--closed"'
    return (
        f'<li{closed}><a href="{address.replace(_NAME, name)}" title="{escape(tile.title)}">'
        f"<span>{_cells(tile)}</span>{name}</a></li>"
    )


def _cells(tile: NodeTile) -> str:
    return "".join(f'<i class="oa-part--{shade}"></i>' * gpus for shade, gpus in tile.cells)


@register.filter
def tile_details(drawn: TileMap) -> dict[str, list[Any]]:
    """The card of each node, for the script: its state, the work that the reader may see, and other sentences."""
    now = timezone.now()
    return {
        tile.node.usage.name: [
            ", ".join(filter(None, (_free_text(tile.node.usage), tile.node.usage.flavor))),
            [
                [each.workflow, each.pool, each.user, each.priority, each.gpus, _length(each.since, now)]
                for each in tile.node.work
            ],
            [*tile.other_texts, *tile.node.usage.notes],
        ]
        for tile in drawn.tiles
    }


def _free_text(use: NodeUsage) -> str:
    return f"{use.free_gpus} free" if use.ready else use.state


def _length(since: datetime | None, now: datetime) -> str:
    return "–" if since is None else span(max((now - since).total_seconds(), 1))
