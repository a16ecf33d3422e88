"""Objects of Kubernetes from YAML or JSON, each with its lines and the keys that have not been read yet."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from scheduling.moving_in.result import BadSource, ImportResult, PartOutcome, SourcePlace
from scheduling.moving_in.source_text import SourceText, read_values

_CHILD: Final = re.compile(r"\.[^.\[]*$|\[\d+\]$")
STATE_KINDS: Final = frozenset(
    {"Workload", "PodGroup", "Pod", "Job", "BindRequest", "Event", "Deployment", "ReplicaSet", "StatefulSet"}
)
_STATE_KEYS: Final = {
    "metadata": "labels, ids and times of the object are not configuration of quotas.",
    "status": "the status is what the cluster has seen, not configuration.",
    "apiVersion": "the version of the form was read.",
}
_HOW: Final = "Give what kubectl get … -o yaml (or -o json) prints, without its tables and messages."
_MAX_DEPTH: Final = 8
Reason = tuple[PartOutcome, str]


@dataclass(slots=True)
class KubernetesObject:
    """One object. `prefix` is its path in the document, empty or `items[3]`: on one long line it is what finds it."""

    file: str
    body: Mapping[str, Any]
    lines: Mapping[str, int]
    prefix: str = ""
    used: set[str] = field(default_factory=set)

    @property
    def kind(self) -> str:
        """Its kind, empty if it has none."""
        return _text(self.body.get("kind"))

    @property
    def name(self) -> str:
        """Its name, empty if it has none."""
        return _text(_map(self.body.get("metadata")).get("name"))

    @property
    def namespace(self) -> str:
        """Its namespace, empty if it has none."""
        return _text(_map(self.body.get("metadata")).get("namespace"))

    @property
    def group(self) -> str:
        """The group of its API, such as kueue.x-k8s.io."""
        return _text(self.body.get("apiVersion")).rpartition("/")[0]

    def place(self, path: str = "") -> SourcePlace:
        """The place of a value; of the object itself without a path."""
        full = _joined(self.prefix, path)
        while full and full not in self.lines:
            full = _parent(full)
        title = f"{self.kind} {self.namespace + '/' if self.namespace else ''}{self.name}".strip()
        if not self.name and self.prefix:
            title = f"{self.prefix} {title}".strip()
        return SourcePlace(self.file, self.lines.get(full, 1), f"{title} {path}".strip())

    def take(self, path: str) -> Any:
        """The value at the path, None if there is none; from now on it is read."""
        self.used.add(path)
        return value_at(self.body, path)

    def take_map(self, path: str) -> Mapping[str, Any]:
        """The map at the path, whose keys are still to be read; raises BadSource for anything else."""
        value = value_at(self.body, path)
        if value is not None and not isinstance(value, dict):
            raise BadSource.at(self.place(path), "this must be a map.")
        return value or {}

    def take_list(self, path: str) -> list[Any]:
        """The list at the path, whose items are still to be read; raises BadSource for anything else."""
        value = value_at(self.body, path)
        if value is not None and not isinstance(value, list):
            raise BadSource.at(self.place(path), "this must be a list.")
        return value or []

    def take_text(self, path: str) -> str:
        """The text at the path, empty if there is none; raises BadSource for anything else."""
        value = self.take(path)
        if value is not None and not isinstance(value, str):
            raise BadSource.at(self.place(path), "this must be a text.")
        return value or ""

    def report_rest(self, result: ImportResult, reason: Callable[[str], Reason | None]) -> None:
        """A report line for each key that nothing has read: the largest parts that are wholly unread."""
        ancestors = {""}
        for path in self.used:
            while path := _parent(path):
                ancestors.add(path)
        for path in self._unread(self.body, "", ancestors):
            state = _STATE_KEYS.get(path.partition(".")[0].partition("[")[0])
            found = (PartOutcome.STATE, state) if state else reason(path)
            outcome, text = found or (PartOutcome.NO_COUNTERPART, "this key is not known to the import.")
            getattr(result, _ADD[outcome])(self.place(path), text)

    def _unread(self, value: Any, path: str, ancestors: set[str]) -> Iterator[str]:
        if path in self.used:
            return
        if path and path not in ancestors:
            yield path
        elif isinstance(value, dict):
            for key, inner in value.items():
                yield from self._unread(inner, _joined(path, key), ancestors)
        elif isinstance(value, list):
            for at, inner in enumerate(value):
                yield from self._unread(inner, f"{path}[{at}]", ancestors)


_ADD: Final = {PartOutcome.STATE: "state", PartOutcome.NO_COUNTERPART: "lost", PartOutcome.TO_DECIDE: "decide"}


def read_objects(sources: list[SourceText], result: ImportResult) -> list[KubernetesObject]:
    """All objects of the files in order; lists are taken apart. Raises BadSource with every fault of the files."""
    found: list[KubernetesObject] = []
    for file, value, lines in read_values(sources, result):
        found += _objects(file, value, lines, result, "")
    _refuse_doubles(found, result)
    return found


def _objects(
    file: str, value: Any, lines: Mapping[str, int], result: ImportResult, prefix: str, depth: int = 0
) -> Iterator[KubernetesObject]:
    """The objects of a document, of an array of them, of a list of kubectl, and of lists in lists."""
    items, path = value, prefix
    if isinstance(value, dict):
        if not isinstance(value.get("items"), list) and not _is_list_without_items(value):
            yield KubernetesObject(file, value, lines, prefix)
            return
        items, path = value.get("items") or [], _joined(prefix, "items")
    if not isinstance(items, list) or depth > _MAX_DEPTH:
        result.fault(
            SourcePlace(file, lines.get(prefix, 1), prefix), f"an object of Kubernetes is a map with `kind`. {_HOW}"
        )
        return
    for at, item in enumerate(items):
        yield from _objects(file, item, lines, result, f"{path}[{at}]", depth + 1)


def _is_list_without_items(value: Mapping[str, Any]) -> bool:
    """A list of kubectl or of a program in Go that has nothing: `items` is null."""
    return "items" in value and value["items"] is None and _text(value.get("kind")).endswith("List")


def _refuse_doubles(objects: list[KubernetesObject], result: ImportResult) -> None:
    seen: dict[tuple[str, str, str, str], KubernetesObject] = {}
    for each in objects:
        key = (each.group, each.kind, each.namespace, each.name)
        if not each.kind or not each.name:
            result.fault(each.place(), f"the object has no kind or no name. {_HOW}")
        elif key in seen:
            result.fault(
                each.place(),
                f"this object is given twice, here{_at(each)} and in {seen[key].place()}{_at(seen[key])}. Keep one.",
            )
        seen.setdefault(key, each)
    if result.faults:
        raise BadSource.of_faults(result.faults)


def _at(each: KubernetesObject) -> str:
    return f" ({each.prefix})" if each.prefix else ""


def report_other_kind(each: KubernetesObject, result: ImportResult, kinds: str) -> None:
    """The report line of an object of a kind that the import does not read."""
    if each.kind in STATE_KINDS:
        result.state(each.place(), "work of the cluster, not configuration.")
    else:
        result.lost(each.place(), f"this kind of object is not read. The import reads {kinds}.")


def value_at(value: Any, path: str) -> Any:
    """The value at a path such as `spec.levels[0].nodeLabel`, None if there is none."""
    for step in re.findall(r"[^.\[\]]+|\[\d+\]", path):
        if step.startswith("["):
            place = int(step[1:-1])
            value = value[place] if isinstance(value, list) and place < len(value) else None
        else:
            value = value.get(step) if isinstance(value, dict) else None
    return value


def _joined(path: str, key: str) -> str:
    return f"{path}.{key}" if path and key else path or key


def _parent(path: str) -> str:
    match = _CHILD.search(path)
    return path[: match.start()] if match else ""


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
