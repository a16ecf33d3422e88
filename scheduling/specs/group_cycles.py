"""Cycles among groups that wait for each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def find_cycle(waits_for: Mapping[str, Sequence[str]]) -> list[str]:
    """One cycle of groups, each waiting for the next and the last for the first; empty if there is none.

    Groups that are not keys wait for nothing. Walks without recursion: a chain may be as long as a file can be.
    """
    done: set[str] = set()
    for start in waits_for:
        path: list[str] = []
        on_path: set[str] = set()
        todo = [(start, False)]
        while todo:
            group, leaving = todo.pop()
            if leaving:
                path.pop()
                on_path.discard(group)
                done.add(group)
            elif group in on_path:
                return path[path.index(group) :]
            elif group not in done:
                path.append(group)
                on_path.add(group)
                todo.append((group, True))
                todo += [(upstream, False) for upstream in waits_for.get(group, ())]
    return []
