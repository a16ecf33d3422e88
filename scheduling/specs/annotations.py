"""The annotations of a PodGroup manifest that say what its pods are: for all SubGroups alike, or by SubGroup.

Kubernetes keeps annotations as texts, so a number, a map or a list may also stand in quotes, as YAML or JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from scheduling.specs import yaml_source
from scheduling.specs.cursor import Place
from scheduling.specs.faults import listed, quoted
from scheduling.specs.nodes import Map, Scalar
from scheduling.specs.rules import SpecRules
from scheduling.specs.tasks import read_image

PREFIX = "osmo/"
PODS = "osmo/pods"
GPUS = "osmo/gpus-per-pod"
IMAGE = "osmo/image"
COMMAND = "osmo/command"
PLATFORM = "osmo/platform"
KNOWN = (PODS, GPUS, IMAGE, COMMAND, PLATFORM)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pods:
    """The pods of one SubGroup: how many, and what each of them is."""

    count: int
    gpu: int = 0
    image: str = ""
    command: tuple[str, ...] = ()
    platform: str | None = None


def read_pods(
    place: Place | None, metadata: Place, least: Mapping[str, int] | None, rules: SpecRules
) -> dict[str, Pods]:
    """The pods of each SubGroup by name; after faults only good for finding further ones.

    `place` is `metadata.annotations`, `metadata` what to complain at when it is missing, `least` the minimum of each
    SubGroup without children, None if these cannot be known. A SubGroup nobody says otherwise of has its minimum.
    """
    return _Annotations(place, metadata, least, rules).pods()


class _Annotations:
    def __init__(self, place: Place | None, metadata: Place, least: Mapping[str, int] | None, rules: SpecRules) -> None:
        self._metadata, self._least, self._rules, self._faults = metadata, least, rules, metadata.faults
        found = place.entries("name: value") if place is not None and not place.absent else {}
        for name in [name for name in found if name.startswith(PREFIX) and name not in KNOWN]:
            near = self._faults.suggestion(name, KNOWN)
            message = f"The annotation {quoted(name)} is not known here.{near} Known are {listed(KNOWN)}."
            found[name].fail("unknown_key", message)
        self._found = {name: found[name] for name in KNOWN if name in found and not found[name].absent}

    def pods(self) -> dict[str, Pods]:
        counts = self._counts()
        gpus = self._each(GPUS, lambda place: place.whole("The number of GPUs"))
        images = self._each(IMAGE, read_image)
        commands = self._each(COMMAND, lambda place: place.texts("texts, the program first"))
        platforms = self._each(PLATFORM, lambda place: place.text() or "")
        self._check_counts(counts)
        self._check_images(images)
        self._check_platforms(platforms)
        self._warn_without_gpus(gpus)
        return {
            name: Pods(
                counts.get(name, minimum),
                gpus.get(name, 0),
                images.get(name, ""),
                commands.get(name, ()),
                platforms.get(name) or self._rules.default_platform,
            )
            for name, minimum in (self._least or {}).items()
        }

    def _counts(self) -> dict[str, int]:
        read = self._each(PODS, lambda place: place.whole("The number of pods", least=1))
        return {name: count for name, count in read.items() if count}

    def _each(self, name: str, read: Callable[[Place], T]) -> dict[str, T]:
        """What the annotation says, by SubGroup. One value alone is for every SubGroup."""
        place = _unfolded(self._found.get(name))
        if place is None:
            return {}
        if not isinstance(place.node, Map):
            return dict.fromkeys(self._least or (), read(place))
        values = {}
        for group, inner in place.entries("").items():
            if self._least is None or group in self._least:
                values[group] = read(inner)
                continue
            near = self._faults.suggestion(group, self._least)
            inner.fail(
                "unknown_name",
                f"The PodGroup has no SubGroup {quoted(group)} without children.{near} It has {listed(self._least)}.",
            )
        return values

    def _check_counts(self, counts: Mapping[str, int]) -> None:
        least = self._least or {}
        short = [f"{name} {count} of {least[name]}" for name, count in counts.items() if count < least.get(name, 0)]
        if short:
            message = f"Fewer pods than minMember, which could so never be reached: {listed(short)}. Ask for more pods."
            self._fail(PODS, "pods_below_minimum", message)

    def _check_images(self, images: Mapping[str, str]) -> None:
        without = [name for name in self._least or () if name not in images]
        if self._rules.on_cluster and without:
            message = (
                "The pool runs its work on a Kubernetes cluster, where a pod needs a container image. Say which in "
                f"the annotation {IMAGE}, as one text or by SubGroup; it is missing for {listed(without)}."
            )
            self._fail(IMAGE, "missing", message)

    def _check_platforms(self, platforms: Mapping[str, str]) -> None:
        allowed = self._rules.platforms
        if allowed is None:
            return
        for name in dict.fromkeys(platforms.values()):
            if name and name not in allowed:
                near = self._faults.suggestion(name, allowed)
                message = f"The pool has no platform {quoted(name)}.{near} It has {listed(allowed)}."
                self._fail(PLATFORM, "unknown_platform", message)
        if self._rules.default_platform is None and any(name not in platforms for name in self._least or ()):
            message = f"The pool has no default platform. Name one of {listed(allowed)} in the annotation {PLATFORM}."
            self._fail(PLATFORM, "no_platform", message)

    def _fail(self, name: str, code: str, message: str) -> None:
        """A fault of the annotation as a whole, whether it is there or missing."""
        self._faults.add(f"metadata.annotations.{name}", code, message, self._found.get(name, self._metadata).line)

    def _warn_without_gpus(self, gpus: Mapping[str, int]) -> None:
        without = [name for name in self._least or () if name not in gpus]
        if without:
            who = "Its pods" if len(without) == len(self._least or ()) else f"The pods of {listed(without)}"
            self._faults.warn(f"{who} ask for no GPUs: the annotation {GPUS} says nothing of them.")


def _unfolded(place: Place | None) -> Place | None:
    """The place with what its text spells, if that is a map or a list in quotes."""
    if place is None or not isinstance(place.node, Scalar) or place.node.text.lstrip()[:1] not in {"{", "["}:
        return place
    node = yaml_source.read(place.node.text, place.faults, path=place.path, line_of=lambda _line: place.line)
    return None if node is None else Place(node, place.path, place.line, place.faults)
