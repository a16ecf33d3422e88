"""The rules for the minimums of a PodGroup (design, D13): all faults at once, with path and code.

Only structural faults (a duplicate name, an unknown parent, a cycle) and invalid groups stop the deeper checks, because
rules about unknown children make no sense. A minimum that is not a number stops no other check. `minMember: 0` counts
as unset if `minSubGroup` is set.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pools.domain.errors import Fault, Violation
from pools.domain.quota.tree import children_first_order, find_cycles
from scheduling.domain.gang import GangTree, SubGroup

MAX_PODS = 2**31 - 1
"""Minimums are 32-bit integers in the CRD."""

MAX_LEVELS = 64
"""Far deeper than any workload. Functions over the tree are recursive."""

MAX_QUOTED_LENGTH = 60
MAX_CYCLE_NAMES = 20
"""A message quotes this much of a name, and this many names of a cycle."""

STRUCTURAL = frozenset({Fault.BAD_VALUE, Fault.DUPLICATE_NAME, Fault.UNKNOWN_PARENT, Fault.CYCLE})
WARNING = "warning"

API_GROUP = "scheduling.run.ai"
API_RULE = f"A PodGroup here is of {API_GROUP}, as in `apiVersion: {API_GROUP}/v2alpha2`."


@dataclass(frozen=True, slots=True)
class FieldNames:
    """The spelling of the fields in the source of the group, so that paths and messages match the reader's file."""

    spec: str = "spec"
    groups: str = "subGroups"
    min_member: str = "minMember"
    min_sub_group: str = "minSubGroup"

    def field_path(self, position: int, field: str) -> str:
        """The path of a field; position −1 is the PodGroup itself."""
        base = self.spec if position < 0 else f"{self.spec}.{self.groups}[{position}]".lstrip(".")
        return f"{base}.{field}".lstrip(".")


KUBERNETES_NAMES = FieldNames()


@dataclass(frozen=True, slots=True)
class PodGroup:
    """The fields of the manifest as written: minimums may break the rules."""

    min_member: int | None
    min_sub_group: int | None
    groups: tuple[SubGroup, ...]

    def tree(self) -> GangTree:
        """The tree of the gang. Only for a PodGroup without structural faults."""
        return GangTree(self.min_member, self.min_sub_group, self.groups)


def validate_pod_group(manifest: object) -> list[Violation]:
    """All violations of a PodGroup manifest; it is valid when none has severity `error`."""
    return [*api_violations(manifest), *read_pod_group(manifest)[1]]


def api_violations(manifest: object) -> list[Violation]:
    """The fault of a manifest that is a PodGroup of other software. A manifest without `apiVersion` is one of KAI."""
    version = manifest.get("apiVersion") if isinstance(manifest, Mapping) else None
    if version is None or (isinstance(version, str) and is_of_kai(version)):
        return []
    return [Violation("apiVersion", Fault.BAD_VALUE, API_RULE)]


def is_of_kai(version: str) -> bool:
    """Whether an `apiVersion` is that of the PodGroups which are read here."""
    return version.partition("/")[0] == API_GROUP


def lenient_violations(manifest: Mapping[str, Any], found: Sequence[Violation], *, is_change: bool) -> list[Violation]:
    """The same violations, where those that KAI 0.17 takes are only warnings (design, K7): minimums
    of 0, more SubGroups required than there are, and, in a change, a minimum of pods on an inner SubGroup."""
    return [
        replace(each, severity=WARNING) if _is_taken_by_kai(manifest, each, is_change=is_change) else each
        for each in found
    ]


def _is_taken_by_kai(manifest: Mapping[str, Any], violation: Violation, *, is_change: bool) -> bool:
    if violation.code in {Fault.MIN_MEMBER_NOT_POSITIVE, Fault.MIN_SUB_GROUP_NOT_POSITIVE}:
        return _value_at(manifest, violation.path) == 0
    if violation.code == Fault.LEAF_WITH_MIN_SUB_GROUP:
        return violation.path == KUBERNETES_NAMES.field_path(-1, KUBERNETES_NAMES.min_sub_group)
    return violation.code == Fault.MIN_SUB_GROUP_ABOVE_CHILDREN or (
        is_change and violation.code == Fault.INNER_WITH_MIN_MEMBER
    )


def _value_at(manifest: Mapping[str, Any], path: str) -> object:
    """The value of a minimum by the path of its violation."""
    spec = manifest["spec"]
    found = _SUB_GROUP_PATH.fullmatch(path)
    if found is None:
        return spec.get(path.rpartition(".")[2])
    return spec[KUBERNETES_NAMES.groups][int(found["position"])].get(found["field"])


_SUB_GROUP_PATH = re.compile(r"spec\.subGroups\[(?P<position>\d+)\]\.(?P<field>\w+)")


def is_valid(violations: Sequence[Violation]) -> bool:
    """Whether only warnings were found."""
    return all(violation.severity == WARNING for violation in violations)


def is_structural(violations: Sequence[Violation]) -> bool:
    """Whether a violation is structural, so that no tree can be built."""
    return any(violation.code in STRUCTURAL for violation in violations)


def read_pod_group(manifest: object) -> tuple[PodGroup, list[Violation]]:
    """The PodGroup of a manifest, and all its violations."""
    if not isinstance(manifest, Mapping):
        return PodGroup(None, None, ()), [Violation("", Fault.BAD_VALUE, "A PodGroup is a map with a `spec`.")]
    kind = manifest.get("kind", "PodGroup")
    if kind != "PodGroup":
        return PodGroup(None, None, ()), [Violation("kind", Fault.BAD_VALUE, "The manifest is not a PodGroup.")]
    spec = manifest.get("spec")
    if not isinstance(spec, Mapping):
        return PodGroup(None, None, ()), [
            Violation("spec", Fault.BAD_VALUE, "A PodGroup needs a `spec`, which is a map.")
        ]
    group, unreadable, not_numbers = _read_spec(spec)
    reported = {fault.path for fault in not_numbers}
    deeper = [] if unreadable else [fault for fault in check_pod_group(group) if fault.path not in reported]
    return group, [*unreadable, *not_numbers, *deeper]


def check_pod_group(group: PodGroup, names: FieldNames = KUBERNETES_NAMES) -> list[Violation]:
    """The rules of a PodGroup whose fields have the right types."""
    return list(_structure(group, names)) or list(_minimums(group, names))


def _read_spec(spec: Mapping[str, Any]) -> tuple[PodGroup, list[Violation], list[Violation]]:
    """The PodGroup, the faults of its groups, and the faults of minimums that are not numbers."""
    names = KUBERNETES_NAMES
    faults: list[Violation] = []
    not_numbers: list[Violation] = []

    def minimum(holder: Mapping[str, Any], field: str, position: int) -> int | None:
        value = holder.get(field)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or abs(value) > MAX_PODS:
            message = f"`{field}` is a whole number, at most {MAX_PODS}."
            not_numbers.append(Violation(names.field_path(position, field), Fault.BAD_VALUE, message))
            return None
        return value

    def text(holder: Mapping[str, Any], field: str, position: int, *, needed: bool) -> str:
        value = holder.get(field)
        if value is None and not needed:
            return ""
        if not isinstance(value, str) or (needed and not value):
            faults.append(Violation(names.field_path(position, field), Fault.BAD_VALUE, f"`{field}` is a name."))
            return ""
        return value

    written = spec.get("subGroups")
    if written is not None and not isinstance(written, list):
        faults.append(Violation("spec.subGroups", Fault.BAD_VALUE, "`subGroups` is a list."))
        written = None
    groups = []
    own = (minimum(spec, "minMember", -1), minimum(spec, "minSubGroup", -1))
    for position, item in enumerate(written or ()):
        if not isinstance(item, Mapping):
            faults.append(
                Violation(f"spec.subGroups[{position}]", Fault.BAD_VALUE, "A SubGroup is a map with a `name`.")
            )
            continue
        groups.append(
            SubGroup(
                text(item, "name", position, needed=True),
                text(item, "parent", position, needed=False) or None,
                minimum(item, "minMember", position),
                minimum(item, "minSubGroup", position),
            )
        )
    return PodGroup(*own, tuple(groups)), faults, not_numbers


def _structure(group: PodGroup, names: FieldNames) -> Iterator[Violation]:
    first: dict[str, int] = {}
    for position, sub in enumerate(group.groups):
        if sub.name in first:
            message = "The name of this SubGroup is used twice; names are unique in a PodGroup."
            yield Violation(names.field_path(position, "name"), Fault.DUPLICATE_NAME, message)
        first.setdefault(sub.name, position)
    for position, sub in enumerate(group.groups):
        if sub.parent is not None and sub.parent not in first:
            message = f"SubGroup {_quote_name(sub.name)} names a parent that does not exist."
            yield Violation(names.field_path(position, "parent"), Fault.UNKNOWN_PARENT, message)
    parents = [first.get(sub.parent, -1) if sub.parent else -1 for sub in group.groups]
    cycles = find_cycles(parents)
    if not cycles and (deep := _find_too_deep(parents)) is not None:
        message = f"SubGroups may be nested at most {MAX_LEVELS} levels deep."
        yield Violation(names.field_path(deep, "parent"), Fault.BAD_VALUE, message)
    for cycle in cycles:
        path = " → ".join(_shorten_name(group.groups[x].name) for x in [*cycle[:MAX_CYCLE_NAMES], cycle[0]])
        message = f"The parents form a cycle: {path}. Give one of them another parent, or none."
        yield Violation(names.field_path(cycle[0], "parent"), Fault.CYCLE, message)


def _shorten_name(name: str) -> str:
    flat = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in name[: MAX_QUOTED_LENGTH + 1])
    return flat if len(flat) <= MAX_QUOTED_LENGTH else f"{flat[: MAX_QUOTED_LENGTH - 1]}…"


def _quote_name(name: str) -> str:
    return f"'{_shorten_name(name)}'"


def _find_too_deep(parents: Sequence[int]) -> int | None:
    """The first node found below the deepest allowed level. The parents have no cycle."""
    levels = [0] * len(parents)
    for x in reversed(children_first_order(parents)[0]):
        levels[x] = levels[parents[x]] + 1 if parents[x] >= 0 else 1
        if levels[x] > MAX_LEVELS:
            return x
    return None


def _minimums(group: PodGroup, names: FieldNames) -> Iterator[Violation]:
    children = {sub.name: 0 for sub in group.groups}
    roots = 0
    for sub in group.groups:
        if sub.parent is None:
            roots += 1
        else:
            children[sub.parent] += 1
    yield from _PodGroupRules(group, names, roots).violations()
    for position, sub in enumerate(group.groups):
        yield from _SubGroupRules(sub, names, position, children[sub.name]).violations()


class _Rules:
    """The rules that the PodGroup and its SubGroups share. `subject` is its name in messages."""

    def __init__(
        self, group: PodGroup | SubGroup, names: FieldNames, position: int, children: int, subject: str
    ) -> None:
        self.member, self.sub_group = group.min_member, group.min_sub_group
        self.names, self.position, self.children, self.subject = names, position, children, subject

    def _violation_at(self, field: str, code: Fault, message: str, severity: str = "error") -> Violation:
        return Violation(
            self.names.field_path(self.position, field), code, f"{self.subject} {message}", severity=severity
        )

    def violations(self) -> Iterator[Violation]:
        names, member, sub_group = self.names, self.member, self.sub_group
        if sub_group is not None and (member or 0) > 0:
            message = (
                f"sets {names.min_member} ({member}) and {names.min_sub_group} ({sub_group}); only one may be set."
            )
            yield self._violation_at(names.min_sub_group, Fault.BOTH_MINIMUMS, message)
        if member is not None and (member < 0 or (member == 0 and not self.children)):
            message = f"sets {names.min_member} to {member}; it must be at least 1."
            yield self._violation_at(names.min_member, Fault.MIN_MEMBER_NOT_POSITIVE, message)
        if sub_group is not None and sub_group <= 0:
            message = f"sets {names.min_sub_group} to {sub_group}; it must be at least 1."
            yield self._violation_at(names.min_sub_group, Fault.MIN_SUB_GROUP_NOT_POSITIVE, message)
        if sub_group is not None and not self.children:
            message = f"has no child SubGroups, so it may not set {names.min_sub_group}; use {names.min_member}."
            yield self._violation_at(names.min_sub_group, Fault.LEAF_WITH_MIN_SUB_GROUP, message)
        if sub_group is not None and 0 < self.children < sub_group:
            message = f"sets {names.min_sub_group} to {sub_group} but has only {self.children} direct child SubGroups."
            yield self._violation_at(names.min_sub_group, Fault.MIN_SUB_GROUP_ABOVE_CHILDREN, message)


class _PodGroupRules(_Rules):
    def __init__(self, group: PodGroup, names: FieldNames, children: int) -> None:
        super().__init__(group, names, -1, children, "The PodGroup")

    def violations(self) -> Iterator[Violation]:
        yield from super().violations()
        if self.children and (self.member or 0) > 0:
            message = f"has SubGroups, so its {self.names.min_member} ({self.member}) is ignored."
            yield self._violation_at(self.names.min_member, Fault.INNER_WITH_MIN_MEMBER, message, WARNING)


class _SubGroupRules(_Rules):
    def __init__(self, group: SubGroup, names: FieldNames, position: int, children: int) -> None:
        super().__init__(group, names, position, children, f"SubGroup {_quote_name(group.name)}")

    def violations(self) -> Iterator[Violation]:
        yield from super().violations()
        names = self.names
        if self.children and (self.member or 0) > 0:
            message = f"has child SubGroups, so it may not set {names.min_member}; use {names.min_sub_group}."
            yield self._violation_at(names.min_member, Fault.INNER_WITH_MIN_MEMBER, message)
        if not self.children and self.member is None:
            message = f"has no child SubGroups and must set {names.min_member}."
            yield self._violation_at(names.min_member, Fault.LEAF_WITHOUT_MIN_MEMBER, message)
