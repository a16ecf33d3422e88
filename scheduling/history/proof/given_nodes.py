"""The nodes of `--nodes`: `12x8,4x4`, twelve nodes of 8 GPUs and four of 4; `h100=12x8` with their flavor."""

from __future__ import annotations

import re
from typing import Final

from pools.domain.configuration.backend_config import MAX_NODES
from pools.domain.names import is_word
from pools.domain.values.amounts import DEFAULT_FLAVOR, gpu_key
from scheduling.domain.engine.facts import NodeFacts

MAX_NODE_GPUS: Final = 1024
_PART: Final = re.compile(r"(?:([^=]{1,63})=)?(\d{1,6})x(\d{1,4})", re.ASCII)
FORM: Final = (
    f"such as 12x8,4x4 (nodes x GPUs) or h100=12x8,a100=4x4: at most {MAX_NODES:,} nodes of 1 to {MAX_NODE_GPUS:,} GPUs"
)


def read_nodes(text: str) -> list[NodeFacts] | None:
    """The nodes, with names of their own; None for a text that is not of this form."""
    found: list[NodeFacts] = []
    for part in text.split(","):
        match = _PART.fullmatch(part.strip())
        if match is None:
            return None
        flavor, count, gpus = match[1] or DEFAULT_FLAVOR, int(match[2]), int(match[3])
        if not is_word(flavor) or not count or not 1 <= gpus <= MAX_NODE_GPUS or len(found) + count > MAX_NODES:
            return None
        found += [NodeFacts(f"node-{len(found) + at:06}", {gpu_key(flavor): gpus}) for at in range(1, count + 1)]
    return found
