"""The annotations of a PodGroup manifest that describe its pods, for all SubGroups alike or by SubGroup.

Kubernetes keeps annotations as texts, so a number, a map or a list may also be quoted, as YAML or JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from pools.domain.errors import Fault
from pools.domain.structured_input.faults import join_words, quote
from scheduling.domain.cluster.devices import asks_for_uncounted_devices
from scheduling.specs.resources import read_gpu_flavors
from scheduling.specs.rules import SpecRules
from scheduling.specs.tasks import read_image
from scheduling.specs.yaml_cursor import YamlCursor
from scheduling.structured_yaml import node_reader
from scheduling.structured_yaml.nodes import MapNode, ScalarNode

PREFIX = "osmo/"
PODS_ANNOTATION = "osmo/pods"
GPUS_ANNOTATION = "osmo/gpus-per-pod"
IMAGE_ANNOTATION = "osmo/image"
COMMAND_ANNOTATION = "osmo/command"
PLATFORM_ANNOTATION = "osmo/platform"
FLAVORS_ANNOTATION = "osmo/gpu-flavors"
KNOWN_ANNOTATIONS = (
    PODS_ANNOTATION,
    GPUS_ANNOTATION,
    IMAGE_ANNOTATION,
    COMMAND_ANNOTATION,
    PLATFORM_ANNOTATION,
    FLAVORS_ANNOTATION,
)

_REASON_NOT_USED = {
    "kai.scheduler/preemption-delay": ": work of priority LOW may be preempted at any time, other work not at all",
    "min-runtime": ": work of priority LOW may be preempted at any time, other work not at all",
    "kai.scheduler/min-runtime": ": work of priority LOW may be preempted at any time, other work not at all",
}

T = TypeVar("T")


def uncounted_message(subject: str) -> str:
    """The refusal of what asks for devices that are not whole GPUs."""
    return (
        f"{subject} asks for devices that are not counted here, so the work would get them without any quota. Leave "
        f"it out, and ask for whole GPUs of each pod in the annotation {GPUS_ANNOTATION}."
    )


@dataclass(frozen=True, slots=True)
class SubGroupPods:
    """The pods of one SubGroup: their number and their description."""

    count: int
    gpu: int = 0
    image: str = ""
    command: tuple[str, ...] = ()
    platform: str | None = None
    gpu_flavors: tuple[str, ...] = ()


def read_pods(
    annotations: YamlCursor | None, metadata: YamlCursor, minimums: Mapping[str, int] | None, rules: SpecRules
) -> dict[str, SubGroupPods]:
    """The pods of each SubGroup by name; after faults only good for finding further ones.

    `annotations` is `metadata.annotations`, `metadata` what to complain at when it is missing, `minimums` the minimum
    of each SubGroup without children, None if these cannot be known. A SubGroup without an annotation has its
    minimum."""
    return _Annotations(annotations, metadata, minimums, rules).pods()


class _Annotations:
    def __init__(
        self, place: YamlCursor | None, metadata: YamlCursor, least: Mapping[str, int] | None, rules: SpecRules
    ) -> None:
        self._metadata, self._least, self._rules, self._faults = metadata, least, rules, metadata.faults
        found = place.map_entries("name: value") if place is not None and not place.is_absent else {}
        for name in [name for name in found if name not in KNOWN_ANNOTATIONS]:
            if asks_for_uncounted_devices(name) and not name.startswith(PREFIX):
                found[name].add_fault(Fault.UNCOUNTED_DEVICES, uncounted_message(f"The annotation {quote(name)}"))
                continue
            if not name.startswith(PREFIX):
                found[name].add_warning(
                    f"The annotation {quote(name)} is not used here{_REASON_NOT_USED.get(name, '')}."
                )
                continue
            near = self._faults.suggestion(name, KNOWN_ANNOTATIONS)
            message = (
                f"The annotation {quote(name)} is not known here.{near} Known are {join_words(KNOWN_ANNOTATIONS)}."
            )
            found[name].add_fault(Fault.UNKNOWN_KEY, message)
        self._found = {name: found[name] for name in KNOWN_ANNOTATIONS if name in found and not found[name].is_absent}

    def pods(self) -> dict[str, SubGroupPods]:
        counts = self._counts()
        gpus = self._read_by_sub_group(GPUS_ANNOTATION, lambda place: place.count())
        images = self._read_by_sub_group(IMAGE_ANNOTATION, read_image)
        commands = self._read_by_sub_group(COMMAND_ANNOTATION, lambda place: place.texts("texts, the program first"))
        platforms = self._read_by_sub_group(PLATFORM_ANNOTATION, lambda place: place.text() or "")
        flavors = self._read_by_sub_group(FLAVORS_ANNOTATION, lambda place: read_gpu_flavors(place, self._rules))
        self._check_counts(counts)
        self._check_images(images)
        self._check_platforms(platforms)
        self._warn_without_gpus(gpus)
        return {
            name: SubGroupPods(
                counts.get(name, minimum),
                gpus.get(name, 0),
                images.get(name, ""),
                commands.get(name, ()),
                platforms.get(name) or self._rules.default_platform,
                flavors.get(name, ()),
            )
            for name, minimum in (self._least or {}).items()
        }

    def _counts(self) -> dict[str, int]:
        read = self._read_by_sub_group(PODS_ANNOTATION, lambda place: place.count(minimum=1))
        return {name: count for name, count in read.items() if count}

    def _read_by_sub_group(self, name: str, read: Callable[[YamlCursor], T]) -> dict[str, T]:
        """The value of the annotation by SubGroup. A single value holds for every SubGroup."""
        place = _unfold(self._found.get(name))
        if place is None:
            return {}
        if not isinstance(place.node, MapNode):
            return dict.fromkeys(self._least or (), read(place))
        values = {}
        for group, inner in place.map_entries("").items():
            if self._least is None or group in self._least:
                values[group] = read(inner)
                continue
            near = self._faults.suggestion(group, self._least)
            inner.add_fault(
                Fault.UNKNOWN_NAME,
                f"The PodGroup has no SubGroup {quote(group)} without children.{near} "
                f"It has {join_words(self._least)}.",
            )
        return values

    def _check_counts(self, counts: Mapping[str, int]) -> None:
        least = self._least or {}
        short = [f"{name} {count} of {least[name]}" for name, count in counts.items() if count < least.get(name, 0)]
        if short:
            message = (
                f"Fewer pods than minMember, which could never be reached: {join_words(short)}. Ask for more pods."
            )
            self._fail(PODS_ANNOTATION, Fault.PODS_BELOW_MINIMUM, message)

    def _check_images(self, images: Mapping[str, str]) -> None:
        without = [name for name in self._least or () if name not in images]
        if self._rules.on_cluster and without:
            message = (
                "The pool runs its work on a Kubernetes cluster, where a pod needs a container image. Name it in "
                f"the annotation {IMAGE_ANNOTATION}, as one text or by SubGroup; "
                f"it is missing for {join_words(without)}."
            )
            self._fail(IMAGE_ANNOTATION, Fault.MISSING, message)

    def _check_platforms(self, platforms: Mapping[str, str]) -> None:
        allowed = self._rules.platforms
        if allowed is None:
            return
        for name in dict.fromkeys(platforms.values()):
            if name and name not in allowed:
                near = self._faults.suggestion(name, allowed)
                message = f"The pool has no platform of this name.{near} It has {join_words(allowed)}."
                self._fail(PLATFORM_ANNOTATION, Fault.UNKNOWN_PLATFORM, message)
        if self._rules.default_platform is None and any(name not in platforms for name in self._least or ()):
            names = join_words(allowed)
            message = f"The pool has no default platform. Name one of {names} in the annotation {PLATFORM_ANNOTATION}."
            self._fail(PLATFORM_ANNOTATION, Fault.NO_PLATFORM, message)

    def _fail(self, name: str, code: Fault, message: str) -> None:
        """Note a fault of the annotation as a whole, present or missing."""
        self._faults.add(f"metadata.annotations.{name}", code, message, self._found.get(name, self._metadata).line)

    def _warn_without_gpus(self, gpus: Mapping[str, int]) -> None:
        without = [name for name in self._least or () if name not in gpus]
        if without:
            pods = "Its pods" if len(without) == len(self._least or ()) else f"The pods of {join_words(without)}"
            self._faults.add_warning(f"{pods} request no GPUs: the annotation {GPUS_ANNOTATION} does not name them.")


def _unfold(place: YamlCursor | None) -> YamlCursor | None:
    """The cursor of the value that a quoted text spells, if that is a map or a list."""
    if place is None or not isinstance(place.node, ScalarNode) or place.node.text.lstrip()[:1] not in {"{", "["}:
        return place
    node = node_reader.read_yaml(place.node.text, place.faults, path=place.path, line_of=lambda _line: place.file_line)
    return None if node is None else YamlCursor(node, place.path, place.line, place.faults)
