"""Cycles among parents, found in one walk however long the chains are."""

from __future__ import annotations

from collections.abc import Mapping


def find_cycle(parents: Mapping[str, str]) -> list[str]:
    """The names of one cycle, from a name to itself; empty if there is none. A name without a parent has none here."""
    done: set[str] = set()
    for name in parents:
        path: dict[str, None] = {}
        at: str | None = name
        while at and at not in done:
            if at in path:
                names = [*path]
                return [*names[names.index(at) :], at]
            path[at] = None
            at = parents.get(at)
        done.update(path)
    return []
