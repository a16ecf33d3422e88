"""The leaf in which work of a foreign queue or namespace counts: the one of the cluster's map, else by its name."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from pools.domain.names import split_name
from scheduling.domain.observed.seen_pods import SeenWork

_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")


def leaf_of(work: SeenWork, queue_pools: Mapping[str, str], by_name: Mapping[str, str]) -> str:
    """The name of the leaf in which work counts, which may not exist; empty where nothing says one. `by_name` are
    :func:`leaf_names`."""
    mapped = queue_pools.get(work.local_queue) or queue_pools.get(work.queue)
    return mapped or by_name.get(plain_name(work.queue), "")


def leaf_names(leaves: Collection[str]) -> Mapping[str, str]:
    """The leaves by the plain names that find them: each by its own name, and a subpool also by its short one where no
    other leaf has it. Names are compared as the import writes them."""
    by_short: dict[str, list[str]] = {}
    for leaf in leaves:
        if short := split_name(leaf).subpool:
            by_short.setdefault(plain_name(short), []).append(leaf)
    found = {short: several[0] for short, several in by_short.items() if len(several) == 1}
    return found | {plain_name(leaf): leaf for leaf in leaves}


def plain_name(name: str) -> str:
    """A name in lower-case letters, digits and single hyphens."""
    return _NOT_IN_NAMES.sub("-", name.lower()).strip("-")
