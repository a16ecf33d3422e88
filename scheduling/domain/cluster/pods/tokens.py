"""OSMO's tokens in the texts of a task, filled in when its pod is created: `{{workflow_id}}`, `{{uuid}}`, `{{output}}`,
`{{input:0}}`, `{{input:task}}`, `{{host:task}}`. An unknown token stays as it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

OUTPUT_DIRECTORY = "/osmo/data/output"
INPUT_DIRECTORY = "/osmo/data/input"

_TOKEN = re.compile(r"\{\{[ \t]*(workflow_id|uuid|output|(?:input|host):([\w.:-]{1,200}))[ \t]*\}\}", re.ASCII)


@dataclass(frozen=True, slots=True)
class TokenValues:
    """The values of the tokens. `hosts` are the addresses of the tasks of the gang by name."""

    workflow: str
    workflow_uuid: str
    hosts: Mapping[str, str]

    def fill(self, text: str) -> str:
        """The text with its tokens replaced."""
        return _TOKEN.sub(self._value, text)

    def _value(self, match: re.Match[str]) -> str:
        what, which = match[1], match[2]
        if what == "workflow_id":
            return self.workflow
        if what == "uuid":
            return self.workflow_uuid
        if what == "output":
            return OUTPUT_DIRECTORY
        if what.startswith("input"):
            return f"{INPUT_DIRECTORY}/{which}"
        return self.hosts.get(which, match[0])


def has_host_token(texts: Iterable[str]) -> bool:
    """Whether one of these texts has a token for the address of another pod."""
    return any(match[1].startswith("host:") for text in texts for match in _TOKEN.finditer(text))
