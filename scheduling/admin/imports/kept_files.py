"""The uploaded files from the form of an import to its confirmation: kept as other input of previews, compressed.

Of a history what it says is kept, and not its text, which may be long.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from pools.admin.kept_input import keep_input, read_kept_input
from pools.domain.people.roles import Actor
from scheduling.moving_in.options import HistoryUse, PastUse
from scheduling.moving_in.source_text import SourceText

_FILES: Final = "files"


@dataclass(frozen=True, slots=True)
class ReadHistory:
    """The name of a history, and what it says."""

    name: str
    use: HistoryUse


@dataclass(frozen=True, slots=True)
class ImportFiles:
    """What a person uploaded."""

    sources: list[SourceText] = field(default_factory=list)
    history: ReadHistory | None = None


def keep_files(actor: Actor, files: ImportFiles) -> str:
    """Keep the files for a limited time. Returns the key with which only this person reads them."""
    history = None if files.history is None else {"name": files.history.name, **_use_as_values(files.history.use)}
    text = json.dumps([[[each.name, each.text] for each in files.sources], history])
    return keep_input(actor, {_FILES: base64.b85encode(zlib.compress(text.encode(), 1)).decode()})


def read_files(actor: Actor, key: str) -> ImportFiles | None:
    """The files; None if they are not kept any more, or another person kept them."""
    kept = read_kept_input(actor, key) or {}
    if _FILES not in kept:
        return None
    sources, history = json.loads(zlib.decompress(base64.b85decode(kept[_FILES])))
    read = None if history is None else ReadHistory(history["name"], _use_of_values(history))
    return ImportFiles([SourceText(name, text) for name, text in sources], read)


def _use_as_values(use: HistoryUse) -> dict[str, Any]:
    teams = {team: {kind: asdict(each) for kind, each in kinds.items()} for team, kinds in use.teams.items()}
    return {"teams": teams, "notes": use.notes}


def _use_of_values(values: Mapping[str, Any]) -> HistoryUse:
    teams = {team: {kind: PastUse(**each) for kind, each in kinds.items()} for team, kinds in values["teams"].items()}
    return HistoryUse(teams, tuple(values["notes"]))
