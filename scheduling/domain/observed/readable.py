"""What cannot be read of an observed cluster. An object there may have any form that the schema of its kind lets
through, and ask for any amount; such a one concerns itself alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, TypeVar

from pools.domain.values.stored_text import as_storable
from scheduling.domain.kubernetes_json import Object, ReadOnlyObject
from scheduling.domain.observed.seen_pods import SeenWork, UnreadObject

MAX_GPUS: Final = 10_000
MAX_CORES: Final = 1_000_000
MAX_BYTES: Final = 2**60
"""The most that one pod is read with; no machine has as much."""
MAX_GPUS_TOGETHER: Final = 2**31 - 1
"""The most of a piece of work, which the database can keep."""

_MARK: Final = "malformed"
_Found = TypeVar("_Found")


def trimmed_or_marked(trim: Callable[[ReadOnlyObject], Object]) -> Callable[[ReadOnlyObject], Object]:
    """`trim` for an informer, which must go on: an object that it cannot trim is marked."""

    def trim_or_mark(item: ReadOnlyObject) -> Object:
        with suppress(Exception):  # an object may have any form
            if all(isinstance(item.get(part) or {}, Mapping) for part in ("spec", "status")):
                return trim(item)
        metadata = {key: part for key, part in item["metadata"].items() if key != "managedFields"}
        return {"metadata": metadata, _MARK: True}

    return trim_or_mark


def require_form(item: ReadOnlyObject) -> None:
    """Raises ValueError for an object that was marked."""
    if _MARK in item:
        raise ValueError("It could not be trimmed.")


@dataclass(frozen=True, slots=True)
class ObjectReader:
    """Reads objects one by one, and notes those that cannot be read."""

    unread: list[UnreadObject] = field(default_factory=list)

    def read(self, kind: str, item: ReadOnlyObject, read: Callable[[], _Found]) -> _Found | None:
        """What `read` makes of this object; None, and a note, where it fails."""
        try:
            return read()
        except Exception as error:  # noqa: BLE001  # an object may have any form
            problem = f"it has a form that is not known ({type(error).__name__})"
            self._note(kind, item, problem, is_malformed=True)
            return None

    def read_work(self, kind: str, item: ReadOnlyObject, read: Callable[[], SeenWork | None]) -> SeenWork | None:
        """The work of this object; None, and a note, where it fails or asks for more than can be counted."""
        work = self.read(kind, item, read)
        if work is not None and (problem := _excess(work)):
            self._note(kind, item, problem)
            return None
        return work

    def _note(self, kind: str, item: ReadOnlyObject, problem: str, *, is_malformed: bool = False) -> None:
        metadata = item["metadata"]
        uid, namespace, name = (str(metadata.get(key) or "") for key in ("uid", "namespace", "name"))
        self.unread.append(UnreadObject(kind, uid, namespace, name, as_storable(problem), is_malformed))


def _excess(work: SeenWork) -> str:
    for pod in work.pods:
        amounts = (
            (pod.gpus, MAX_GPUS, "GPUs"),
            (pod.cpu, MAX_CORES, "cores"),
            (pod.memory_bytes, MAX_BYTES, "bytes of memory"),
            (pod.storage_bytes, MAX_BYTES, "bytes of storage"),
        )
        for amount, most, unit in amounts:
            if amount > most:
                return f"its pod {pod.name} asks for more than {most} {unit}"
    if sum(pod.gpus for pod in work.pods) > MAX_GPUS_TOGETHER:
        return f"its pods ask for more than {MAX_GPUS_TOGETHER} GPUs together"
    return ""
