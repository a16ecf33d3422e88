"""The uploaded files from the form of an import to its confirmation: kept as other input of previews, compressed."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Final

from pools.admin.kept_input import keep_input, read_kept_input
from pools.domain.people.roles import Actor
from scheduling.moving_in.source_text import SourceText

_FILES: Final = "files"


def keep_files(actor: Actor, sources: list[SourceText]) -> str:
    """Keep the files for a limited time. Returns the key with which only this person reads them."""
    text = json.dumps([[each.name, each.text] for each in sources])
    return keep_input(actor, {_FILES: base64.b85encode(zlib.compress(text.encode(), 1)).decode()})


def read_files(actor: Actor, key: str) -> list[SourceText] | None:
    """The files; None if they are not kept any more, or another person kept them."""
    kept = read_kept_input(actor, key) or {}
    if _FILES not in kept:
        return None
    return [SourceText(name, text) for name, text in json.loads(zlib.decompress(base64.b85decode(kept[_FILES])))]
