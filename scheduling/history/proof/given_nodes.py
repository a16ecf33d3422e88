"""The nodes of `--nodes`: `12x8,4x4`, twelve nodes of 8 GPUs and four of 4."""

from __future__ import annotations

import re
from typing import Final

from pools.domain.configuration.backend_config import MAX_NODES
from pools.domain.values.amounts import GPU
from scheduling.domain.engine.facts import NodeFacts

MAX_NODE_GPUS: Final = 1024
_PART: Final = re.compile(r"(\d{1,6})x(\d{1,4})", re.ASCII)
FORM: Final = f"such as 12x8,4x4 (nodes x GPUs): at most {MAX_NODES:,} nodes of 1 to {MAX_NODE_GPUS:,} GPUs"


def read_nodes(text: str) -> list[NodeFacts] | None:
    """The nodes, with names of their own; None for a text that is not of this form."""
    found: list[NodeFacts] = []
    for part in text.split(","):
        match = _PART.fullmatch(part.strip())
        if match is None:
            return None
        count, gpus = int(match[1]), int(match[2])
        if not count or not 1 <= gpus <= MAX_NODE_GPUS or len(found) + count > MAX_NODES:
            return None
        found += [NodeFacts(f"node-{len(found) + at:06}", {GPU: gpus}) for at in range(1, count + 1)]
    return found
