"""OSMO's own marks in a task's texts, filled in when its pod is made: `{{workflow_id}}`, `{{uuid}}`, `{{output}}`,
`{{input:0}}`, `{{input:task}}`, `{{host:task}}`. A mark that says nothing known stays as it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

OUTPUT_DIRECTORY = "/osmo/data/output"
INPUT_DIRECTORY = "/osmo/data/input"

_TOKEN = re.compile(r"\{\{[ \t]*(workflow_id|uuid|output|(?:input|host):([\w.:-]{1,200}))[ \t]*\}\}", re.ASCII)


@dataclass(frozen=True, slots=True)
class TokenValues:
    """What the marks stand for. `hosts` are the addresses of the tasks of the gang by name."""

    workflow: str
    workflow_uuid: str
    hosts: Mapping[str, str]

    def fill(self, text: str) -> str:
        """The text with its marks carried out."""
        return _TOKEN.sub(self._meaning, text)

    def _meaning(self, found: re.Match[str]) -> str:
        what, which = found[1], found[2]
        if what == "workflow_id":
            return self.workflow
        if what == "uuid":
            return self.workflow_uuid
        if what == "output":
            return OUTPUT_DIRECTORY
        if what.startswith("input"):
            return f"{INPUT_DIRECTORY}/{which}"
        return self.hosts.get(which, found[0])


def has_host_token(texts: Iterable[str]) -> bool:
    """Whether one of these texts asks for the address of another pod."""
    return any(found[1].startswith("host:") for text in texts for found in _TOKEN.finditer(text))
