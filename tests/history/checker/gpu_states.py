"""The states of a namespace with a GPU quota, one after each audit entry of its allocations and of its quota.

Amounts are thousandths, so that sums are exact."""

from __future__ import annotations

import bisect
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import pairwise
from typing import Any

from tests.history.checker.history import Entry, History, Row

RESOURCES = ("requests.tflops", "requests.vram", "limits.tflops", "limits.vram", "workers")
_SUFFIX = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_QUANTITY = re.compile(r"([0-9.]+)([KMGTPE]i|[numkMGTPE])?(?:[eE]([-+]?\d+))?")

Amounts = Mapping[str, int]


def milli(value: Any) -> int:
    """A Kubernetes quantity, or a number, in thousandths."""
    match = _QUANTITY.fullmatch(str(value))
    if match is None:
        raise ValueError(f"{value!r} is not a quantity")
    number, suffix, power = match.groups()
    factor = (
        Decimal(1024) ** (" KMGTPE".index(suffix[0]))
        if suffix and suffix.endswith("i")
        else Decimal(10) ** (int(power) if power else _SUFFIX[suffix or ""])
    )
    return int(Decimal(number) * factor * 1000)


def caps_of(spec: Row) -> dict[str, int]:
    """The caps on the total of a spec; an absent cap does not limit."""
    total = spec.get("total", {})
    found = {
        f"{side}.{resource}": milli(value)
        for side in ("requests", "limits")
        for resource, value in total.get(side, {}).items()
    }
    if total.get("maxWorkers") is not None:
        found["workers"] = int(total["maxWorkers"]) * 1000
    return found


def amounts_of(image: Row) -> dict[str, int]:
    """What one allocation counts for."""
    count = int(image["count"])
    found = {
        f"{side}s.{what}": int(count * Decimal(str(image[f"{side}_{what}"])) * 1000)
        for side in ("request", "limit")
        for what in ("tflops", "vram")
    }
    return found | {"workers": 1000}


@dataclass(frozen=True, slots=True)
class NamespaceState:
    """A namespace after one entry. `live` has the live allocations by name; `caps` is None without a quota."""

    namespace: str
    caps: Amounts | None
    live: Mapping[str, Row]
    begin: float
    end: float = math.inf
    entry: Entry | None = None
    committed_only: Amounts = field(default_factory=dict)

    def totals(self, *states: str) -> dict[str, int]:
        """The sums over live allocations, of these states or of all."""
        found = dict.fromkeys(RESOURCES, 0)
        for image in self.live.values():
            if not states or image["state"] in states:
                for key, amount in amounts_of(image).items():
                    found[key] += amount
        return found


@dataclass(slots=True)
class NamespaceTimeline:
    """The states of one namespace. `is_complete` is False if workers without audit entries (of workflows and pods) are
    in it too."""

    states: list[NamespaceState]
    is_complete: bool = True

    def between(self, begin: float, end: float) -> list[NamespaceState]:
        """The states that were current at some moment between two times."""
        first = max(0, bisect.bisect_right(self.states, begin, key=lambda state: state.begin) - 1)
        last = bisect.bisect_right(self.states, end, key=lambda state: state.begin)
        return self.states[first : max(last, first + 1)]


def namespace_timelines(history: History) -> dict[str, NamespaceTimeline]:
    """The timeline of each namespace."""
    by_namespace: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in history.entries:
        image = entry.after or entry.before
        if entry.kind in {"gpu_quota", "gpu_allocation"} and image is not None:
            by_namespace[image["namespace"]].append(entry)
    others = {each["namespace"] for each in history.rows("pools_gpuallocation") if each["source"] != "api"}
    return {
        namespace: NamespaceTimeline(_replay(namespace, found, history), namespace not in others)
        for namespace, found in by_namespace.items()
    }


def _replay(namespace: str, found: list[Entry], history: History) -> list[NamespaceState]:
    state = NamespaceState(namespace, None, {}, -math.inf)
    states = [state]
    for entry in sorted(found, key=history.order_key):
        begin = -math.inf if entry.committed is None else entry.committed
        state = replace(state, begin=begin, entry=entry)
        if entry.kind == "gpu_quota":
            state = replace(state, caps=None if entry.after is None else caps_of(entry.after["spec"]))
        else:
            live = {name: image for name, image in state.live.items() if name != _name(entry)}
            if entry.after is not None and entry.after["state"] != "released":
                live[_name(entry)] = entry.after
            state = replace(state, live=live)
        states.append(state)
    return list(_close(states))


def _name(entry: Entry) -> str:
    return str((entry.after or entry.before or {})["name"])


def _close(states: list[NamespaceState]) -> Iterator[NamespaceState]:
    for state, following in pairwise(states):
        yield replace(state, end=following.begin)
    yield states[-1]
