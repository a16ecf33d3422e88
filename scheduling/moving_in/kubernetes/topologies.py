"""Topology objects of Kueue and KAI: the levels of the network as `topology_keys` of pools."""

from __future__ import annotations

from collections.abc import Iterable

from scheduling.moving_in.kubernetes.objects import KubernetesObject
from scheduling.moving_in.result import BadSource, ImportResult


def read_topologies(objects: Iterable[KubernetesObject], result: ImportResult) -> dict[str, list[dict[str, str]]]:
    """The levels by the name of their topology, the widest first. A level is called by the last part of its label."""
    found: dict[str, list[dict[str, str]]] = {}
    for each in objects:
        rows: list[dict[str, str]] = []
        for at, _level in enumerate(each.take_list("spec.levels")):
            label = each.take_text(f"spec.levels[{at}].nodeLabel")
            if not label:
                raise BadSource.at(each.place(f"spec.levels[{at}]"), "a level has no nodeLabel.")
            key = label.rpartition("/")[2]
            if any(row["key"] == key for row in rows):
                key = label
            rows.append({"key": key, "label": label})
        found[each.name] = rows
        result.became(each.place(), f"topology_keys {', '.join(row['key'] for row in rows) or 'none'} of pools on it.")
        each.used.update(("kind", "metadata.name"))
        each.report_rest(result, lambda _path: None)
    return found
