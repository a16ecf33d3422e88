"""The differences between the files of a source and the installation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pools.domain.configuration.ownership import GitOwner, OwnedKind, OwnerKind
from scheduling.configuration.bodies import SECTION_BY_KIND, SUBPOOLS, SUBPOOLS_OWNER, role_body
from scheduling.configuration.files import FileObject

ObjectKey = tuple[OwnedKind, str]


class ObjectAction(StrEnum):
    """The change of an object by `apply`. `adopt` and `release`: only its owner changes. `keep`: Git owns the object
    and no file has it; only `--prune` removes it."""

    CREATE = "create"
    CHANGE = "change"
    ADOPT = "adopt"
    RELEASE = "release"
    REMOVE = "remove"
    KEEP = "keep"


@dataclass(frozen=True, slots=True)
class Difference:
    """One object whose files and installation differ; `before` and `after` are its forms."""

    action: ObjectAction
    kind: OwnedKind
    name: str
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None
    path: str = ""
    line: int | None = None

    @property
    def key(self) -> ObjectKey:
        """Kind and name."""
        return self.kind, self.name

    @property
    def label(self) -> str:
        """The name of the object in a file: `pools.vision`."""
        section = SECTION_BY_KIND[self.kind]
        return section.key if section.is_single else f"{section.key}.{self.name}"

    def as_dict(self) -> dict[str, Any]:
        """The difference as JSON."""
        return {
            "action": str(self.action),
            "object": self.label,
            "file": self.path,
            "line": self.line,
            "before": self.before,
            "after": self.after,
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """All differences, in the order of the sections. `unowned` are objects of the admins that no file has; they are no
    difference. `foreign` are objects of the files that another source owns."""

    differences: tuple[Difference, ...]
    unowned: tuple[ObjectKey, ...]
    foreign: tuple[tuple[FileObject, GitOwner], ...]

    @property
    def changes(self) -> tuple[Difference, ...]:
        """The differences that `apply` would write."""
        return tuple(each for each in self.differences if each.action is not ObjectAction.KEEP)


def compare(
    files: Mapping[ObjectKey, FileObject],
    installation: Mapping[ObjectKey, Mapping[str, Any]],
    owners: Mapping[ObjectKey, GitOwner],
    *,
    source: str,
    prune: bool,
    takes_ownership: bool,
) -> Comparison:
    """Compare the files of `source` with the installation. With `prune` the objects that `source` owns and no file has
    are removed."""
    found: list[Difference] = []
    for key, wanted in files.items():
        before, owner = installation.get(key), owners.get(key)
        if before is None and wanted.kind is OwnedKind.ROLE:
            before = role_body(())  # a role without users is there, and no export has it
        after = _resulting_body(wanted, before)
        action = _action(before, after, owner, takes_ownership=takes_ownership)
        if action is not None:
            found.append(Difference(action, *key, before, after, wanted.path, wanted.line))
    for key, owner in owners.items():
        if owner.source == source and key not in files and key in installation:
            action = ObjectAction.REMOVE if prune else ObjectAction.KEEP
            found.append(Difference(action, *key, installation[key], None, owner.path))
    order = list(SECTION_BY_KIND)
    found.sort(key=lambda each: (order.index(each.kind), each.name))
    unowned = [key for key in installation if key not in files and key not in owners]
    foreign = [(wanted, owners[key]) for key, wanted in files.items() if key in owners and owners[key].source != source]
    return Comparison(tuple(found), tuple(sorted(unowned)), tuple(foreign))


def _resulting_body(wanted: FileObject, before: Mapping[str, Any] | None) -> dict[str, Any]:
    """The form of the object after `apply`: a pool that exists keeps the subpools that belong to its admins."""
    after = dict(wanted.body)
    if before is not None and wanted.kind is OwnedKind.POOL and after.get(SUBPOOLS_OWNER) != OwnerKind.GIT:
        after.pop(SUBPOOLS, None)
        if SUBPOOLS in before:
            after[SUBPOOLS] = before[SUBPOOLS]
    return after


def _action(
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any],
    owner: GitOwner | None,
    *,
    takes_ownership: bool,
) -> ObjectAction | None:
    if before is None:
        return ObjectAction.CREATE
    if _without_owner(before) != _without_owner(after):
        return ObjectAction.CHANGE
    if not takes_ownership:
        return None if owner is None else ObjectAction.RELEASE
    owns_subpools = after.get(SUBPOOLS_OWNER) == OwnerKind.GIT
    return ObjectAction.ADOPT if owner is None or owner.subpools != owns_subpools else None


def _without_owner(body: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in body.items() if key != SUBPOOLS_OWNER}
