"""Apply files of the configuration: one transaction, through the services that also serve pages and API.

The locks are those of :mod:`pools.locking` in its order, taken before the first change: accounts, role, configuration,
pool trees, cohort trees, GPU namespaces. The services take them again, which does nothing then. Only objects that
differ are locked and written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pools.database.transactions import RETRY_AFTER, change
from pools.domain.changes.backends import DeleteBackend, PutBackend
from pools.domain.changes.cohorts import DeleteCohort, PutCohort
from pools.domain.changes.command import read_command
from pools.domain.changes.gpu_quotas import DeleteGpuQuota, PutGpuQuota
from pools.domain.changes.pools import DeletePool, PutPools
from pools.domain.changes.subpools import CreateSubpool, DeleteSubpool, ResizeSubpool
from pools.domain.changes.users import CreateUser, GrantRole, RevokeRole
from pools.domain.configuration.ownership import GitOwner, OwnedKind, OwnerKind
from pools.domain.errors import Busy, Conflict, DomainError, Fault, Violation
from pools.domain.people.roles import PLATFORM_ADMIN, Actor
from pools.domain.subpool_lifecycle import SubpoolState
from pools.locking import (
    lock_cohort_trees,
    lock_configuration,
    lock_namespaces,
    lock_pool_trees,
    lock_role,
    lock_users,
)
from pools.models import Cohort, GpuAllocation, Pool, Reservation, User
from pools.permissions import require_platform
from pools.services.changes.approval_check import approved
from pools.services.changes.dry_run import read_effect, warnings_of
from pools.services.changes.ownership import applying, forget_owners, set_owners
from pools.services.changes.seen_state import require_as_seen
from pools.services.changes.shown_effects import ShownChange
from pools.services.configuration.backends import delete_backend, put_backend
from pools.services.configuration.cohorts import delete_cohort, put_cohort
from pools.services.configuration.pools import delete_pool, put_pools
from pools.services.configuration.subpools import create_subpool, delete_subpool, resize_subpool
from pools.services.gpu_quota.gpu_quotas import delete_gpu_quota, put_gpu_quota
from pools.services.people.users import create_user, grant_role, revoke_role
from pools.sign_on.identities import roles_given_by_groups
from scheduling.configuration.bodies import (
    SECTION_BY_KIND,
    SETTINGS_DEFAULTS,
    SUBPOOLS,
    SUBPOOLS_OWNER,
    USERS,
    Quota,
    full_backend_body,
)
from scheduling.configuration.comparison import Comparison, Difference, ObjectAction, ObjectKey, compare
from scheduling.configuration.files import BadFiles, ConfigurationFiles, FileObject
from scheduling.domain.changes.settings import UpdateSettings
from scheduling.selectors.cluster.configuration import read_configuration, read_owners
from scheduling.services.workflow_config import update_workflow_config

WRITTEN = (ObjectAction.CREATE, ObjectAction.CHANGE)


@dataclass(frozen=True, slots=True)
class ApplyOptions:
    """`source` names the repository or file in messages, `commit` its state. `owner` GIT: the objects of the files are
    Git's from then on; ADMIN: they are the admins'. `prune`: objects that `source` owns and no file has are removed.
    `is_reviewed`: a second person has seen the files, as in Git, so nothing needs a further approval. `reason` stands
    in the audit trail."""

    source: str
    commit: str = ""
    owner: OwnerKind = OwnerKind.GIT
    prune: bool = False
    is_reviewed: bool = True
    reason: str = ""

    @property
    def description(self) -> str:
        """The reason in the audit trail."""
        return self.reason or f"applied from {GitOwner(self.source, commit=self.commit)}"


@dataclass(frozen=True, slots=True)
class AppliedConfiguration:
    """The differences that were written, and the warnings about them."""

    comparison: Comparison
    warnings: tuple[str, ...] = ()


def compare_configuration(files: ConfigurationFiles, options: ApplyOptions) -> Comparison:
    """Compare files and installation. Raises BadFiles with every fault, and Conflict for objects of another source."""
    if files.faults:
        raise BadFiles.of_faults(files.faults)
    owners = read_owners()
    found = compare(
        files.objects,
        read_configuration(owners),
        owners,
        source=options.source,
        prune=options.prune,
        takes_ownership=options.owner is OwnerKind.GIT,
    )
    if found.foreign:
        raise Conflict.of([_foreign_violation(place, owner) for place, owner in found.foreign])
    return found


def apply_configuration(*, actor: Actor, files: ConfigurationFiles, options: ApplyOptions) -> AppliedConfiguration:
    """Make the installation equal to the files, all or nothing.

    Raises BadFiles with every fault of the files or of the change they request, each with file and line; Conflict where
    the state of the installation refuses; Busy if it changed while the locks were taken.
    """
    require_platform(actor)
    expected = compare_configuration(files, options)
    if not expected.changes:
        return AppliedConfiguration(expected)
    with change(actor=actor, description=options.description):
        _take_locks(expected, files)
        present = compare_configuration(files, options)
        if not {each.key for each in present.changes} <= {each.key for each in expected.changes}:
            raise Busy(
                "The installation was changed while the files were compared; nothing was written, try again.",
                retry_after=RETRY_AFTER,
            )
        require_as_seen()
        writer = _Writer(actor, options, files, present)
        with applying(options.source), approved() if options.is_reviewed else nullcontext():
            writer.write()
    return AppliedConfiguration(present, tuple(dict.fromkeys(writer.warnings)))


def configuration_effect(
    *,
    actor: Actor,
    files: ConfigurationFiles,
    options: ApplyOptions,
    operation: Callable[[], object] | None = None,
) -> dict[str, Any]:
    """The effect of :func:`apply_configuration`, as pages and API preview changes, with the differences. A change that
    the ledger refuses has `violations` and no `after`. `operation` makes the same call, for those who keep its
    answer."""
    require_platform(actor)
    comparison = compare_configuration(files, options)
    pools = [each.name for each in comparison.changes if each.kind is OwnedKind.POOL]
    effect = read_effect(
        operation or (lambda: apply_configuration(actor=actor, files=files, options=options)),
        read_state=lambda: _state(comparison),
        read_draining=lambda: _draining_workflows(pools),
        actor=actor,
    )
    return {
        **effect,
        "differences": [each.as_dict() for each in comparison.differences],
        "not_in_files": [_label(key) for key in comparison.unowned],
        "notes": files.notes,
    }


def shown_files(files: ConfigurationFiles, options: ApplyOptions) -> ShownChange:
    """What makes two calls of :func:`apply_configuration` the same change."""
    objects = [[kind, name, each.body] for (kind, name), each in sorted(files.objects.items())]
    content = json.dumps([objects, options.owner, options.prune], sort_keys=True, default=str)
    return ShownChange(f"Apply the files of {options.source}", content)


def read_changing_objects(files: ConfigurationFiles, options: ApplyOptions) -> dict[str, Any]:
    """The present forms of the objects that :func:`apply_configuration` would change, by section and name."""
    return _state(compare_configuration(files, options))


def _state(comparison: Comparison) -> dict[str, Any]:
    """The forms of the objects that change, by section and name."""
    objects = read_configuration(read_owners())
    state: dict[str, Any] = {}
    for each in comparison.changes:
        section = SECTION_BY_KIND[each.kind]
        if section.is_single:
            state[section.key] = objects.get(each.key)
        else:
            state.setdefault(section.key, {})[each.name] = objects.get(each.key)
    return state


def _draining_workflows(pools: Collection[str]) -> list[str]:
    rows = Reservation.objects.filter(pool__parent__name__in=pools, pool__subpool_state=SubpoolState.DELETING)
    return list(rows.order_by("created_at", "workflow_name").values_list("workflow_name", flat=True))


def _label(key: ObjectKey) -> str:
    section = SECTION_BY_KIND[key[0]]
    return section.key if section.is_single else f"{section.key}.{key[1]}"


def _foreign_violation(place: FileObject, owner: GitOwner) -> Violation:
    message = (
        f"{place.prefix} is owned by {owner}. One source owns an object: remove it there, or release it with "
        f"osmo-admin release {place.kind}/{place.name}."
    )
    return place.locate(Violation("", Fault.OWNED_BY_GIT, message, numbers=tuple(owner.as_dict().items())))


def _take_locks(comparison: Comparison, files: ConfigurationFiles) -> None:
    by_kind: dict[OwnedKind, list[Difference]] = {kind: [] for kind in OwnedKind}
    for each in comparison.changes:
        by_kind[each.kind].append(each)
    if roles := by_kind[OwnedKind.ROLE]:
        lock_users({user for each in roles for body in (each.before, each.after) if body for user in body[USERS]})
        lock_role(PLATFORM_ADMIN)
    lock_configuration()
    cohorts = {each.name for each in by_kind[OwnedKind.COHORT]}
    above = {each.after["parent"] for each in by_kind[OwnedKind.COHORT] if each.after and "parent" in each.after}
    pools = Pool.objects.roots().filter(name__in=[each.name for each in by_kind[OwnedKind.POOL]])
    below = Pool.objects.roots().filter(cohort__name__in=cohorts) if cohorts else Pool.objects.none()
    lock_pool_trees({*pools.values_list("pk", flat=True), *below.values_list("pk", flat=True)})
    lock_cohort_trees(list(Cohort.objects.filter(name__in=cohorts | above).values_list("pk", flat=True)))
    gone = [each.name for each in by_kind[OwnedKind.BACKEND] if each.action is ObjectAction.REMOVE]
    workers = GpuAllocation.objects.filter(backend__name__in=gone).exclude(state=GpuAllocation.State.RELEASED)
    namespaces = {each.name for each in by_kind[OwnedKind.GPU_QUOTA]}
    if names := namespaces | (set(workers.values_list("namespace", flat=True)) if gone else set()):
        lock_namespaces(names)


@dataclass(slots=True)
class _Writer:
    """Writes the differences section by section. A refused object is rolled back alone, so that all objects of its
    section are judged; then everything is refused."""

    actor: Actor
    options: ApplyOptions
    files: ConfigurationFiles
    comparison: Comparison
    warnings: list[str] = field(default_factory=list)
    faults: list[Violation] = field(default_factory=list)

    def write(self) -> None:
        """Write everything. Raises BadFiles."""
        steps: list[Callable[[], None]] = [
            self._put_backends, self._shrink_subpools, self._put_pools, self._grow_subpools, self._put_cohorts,
            self._put_gpu_quotas, self._create_users, self._put_roles, self._put_settings, self._remove,
        ]  # fmt: skip
        for step in steps:
            step()
            if self.faults:
                raise BadFiles.of_faults(self.faults)
        self._set_owners()

    def _of_kind(self, kind: OwnedKind, *actions: ObjectAction) -> list[Difference]:
        return [each for each in self.comparison.changes if each.kind is kind and each.action in actions]

    def _attempt(self, difference: Difference, operation: Callable[[], object], path: str = "") -> None:
        """Do one change of an object; a refusal becomes faults with its place in the file."""
        try:
            self.warnings += warnings_of(operation())
        except DomainError as refusal:
            if isinstance(refusal, Busy):
                raise
            self._note(difference, refusal.violations, path)

    def _note(self, difference: Difference, violations: Iterable[Violation], path: str = "") -> None:
        place = self.files.objects.get(difference.key)
        for fault in violations:
            if place is None:
                place = FileObject(difference.kind, difference.name, {}, difference.path, difference.label)
            inner = f"{path}.{fault.path}".strip(".") if path else fault.path
            self.faults.append(
                place.locate(Violation(inner, fault.code, fault.message, None, fault.severity, fault.numbers))
            )

    @property
    def _how(self) -> dict[str, Any]:
        return {"actor": self.actor, "description": self.options.description}

    def _put_backends(self) -> None:
        for each in self._of_kind(OwnedKind.BACKEND, *WRITTEN):
            command = PutBackend(name=each.name, body=full_backend_body(each.after or {}))
            self._attempt(each, partial(put_backend, command, **self._how))

    def _put_pools(self) -> None:
        wanted = {
            each.name: each
            for each in self._of_kind(OwnedKind.POOL, *WRITTEN)
            if _without_subpools(each.before) != _without_subpools(each.after)
        }
        if not wanted:
            return
        bodies = {name: _without_subpools(each.after) or {} for name, each in wanted.items()}
        try:
            self.warnings += warnings_of(put_pools(PutPools(configs=bodies), **self._how))
        except Busy:
            raise
        except DomainError as refusal:
            for fault in refusal.violations:
                name, _, path = fault.path.partition(".")
                each = wanted.get(name) or next(iter(wanted.values()))
                self._note(each, [Violation(path, fault.code, fault.message, numbers=fault.numbers)])

    def _shrink_subpools(self) -> None:
        """Delete and cut subpools first, so that a pool may give up the GPUs. By flavor, each one is cut that shall be
        smaller, as far as the pool has it now."""
        for each in self._of_kind(OwnedKind.POOL, ObjectAction.CHANGE):
            wanted = _subpools(each.after)
            for short, quota in _subpools(each.before).items():
                if short not in wanted:
                    self._delete_subpool(each, short, SUBPOOLS)
                elif (smaller := _smaller(quota, wanted[short])) != quota:
                    self._set_quota(each, short, smaller)

    def _grow_subpools(self) -> None:
        for each in self._of_kind(OwnedKind.POOL, *WRITTEN):
            present = _subpools(each.before)
            for short, quota in _subpools(each.after).items():
                if short not in present:
                    self._set_quota(each, short, quota, is_new=True)
                elif _smaller(present[short], quota) != quota:
                    self._set_quota(each, short, quota)

    def _set_quota(self, each: Difference, short: str, quota: Quota, *, is_new: bool = False) -> None:
        values: dict[str, Any] = {"parent": each.name, "subpool_name": short}
        values["quotas" if isinstance(quota, Mapping) else "quota"] = quota
        operation = (
            partial(create_subpool, CreateSubpool(**values), **self._how)
            if is_new
            else partial(resize_subpool, ResizeSubpool(**values), **self._how)
        )
        self._attempt(each, operation, f"{SUBPOOLS}.{short}")

    def _delete_subpool(self, each: Difference, short: str, path: str = "") -> None:
        command = DeleteSubpool(parent=each.name, subpool_name=short)
        self._attempt(each, partial(delete_subpool, command, **self._how), path)

    def _put_cohorts(self) -> None:
        """Parents first: no cohort then stands below one that has not reached its place yet."""
        wanted = self._of_kind(OwnedKind.COHORT, *WRITTEN)
        parents = _cohort_parents()
        parents.update({each.name: (each.after or {}).get("parent") for each in wanted})
        for each in sorted(wanted, key=lambda each: (_depth(each.name, parents), each.name)):
            self._attempt(each, partial(put_cohort, PutCohort(name=each.name, body=each.after or {}), **self._how))

    def _put_gpu_quotas(self) -> None:
        for each in self._of_kind(OwnedKind.GPU_QUOTA, *WRITTEN):
            command = PutGpuQuota(namespace=each.name, spec=each.after or {})
            self._attempt(each, partial(put_gpu_quota, command, **self._how))

    def _create_users(self) -> None:
        """Accounts of the files that do not exist, without a password: their users sign in by sign-on or token."""
        roles = self._of_kind(OwnedKind.ROLE, *WRITTEN)
        wanted = {user: each for each in roles for user in (each.after or {})[USERS]}
        there = set(User.objects.filter(username__in=wanted, is_active=True).values_list("username", flat=True))
        for user in sorted(set(wanted) - there):
            self._attempt(wanted[user], partial(create_user, CreateUser(id=user), **self._how), USERS)
            self.warnings.append(f"The account {user} is new; it has no password.")

    def _warn_of_groups(self) -> None:
        """Git would own a role that groups give: said before it happens, because the groups then change it no more."""
        if self.options.owner is not OwnerKind.GIT:
            return
        taken = {each.name for each in self._of_kind(OwnedKind.ROLE, ObjectAction.ADOPT, *WRITTEN)}
        for role in sorted(taken & roles_given_by_groups()):
            self.warnings.append(
                f"Groups of a provider give the role {role}. Once Git owns it, they neither give nor take it; leave it "
                "out of the files where the groups should decide."
            )

    def _put_roles(self) -> None:
        self._warn_of_groups()
        for each in self._of_kind(OwnedKind.ROLE, *WRITTEN):
            before, after = (set(body[USERS]) if body else set() for body in (each.before, each.after))
            for user in sorted(after - before):
                command = GrantRole(username=user, role_name=each.name)
                self._attempt(each, partial(grant_role, command, **self._how), USERS)
            self._revoke(each, before - after)

    def _revoke(self, each: Difference, users: Collection[str]) -> None:
        for user in sorted(users):
            command = RevokeRole(username=user, role_name=each.name)
            self._attempt(each, partial(revoke_role, command, **self._how), USERS)

    def _put_settings(self) -> None:
        for each in self._of_kind(OwnedKind.SETTINGS, *WRITTEN):
            self._set_settings(each, each.after or {})

    def _set_settings(self, each: Difference, values: Mapping[str, Any]) -> None:
        self._attempt(each, lambda: update_workflow_config(read_command(UpdateSettings, values), **self._how))

    def _remove(self) -> None:
        """Users lose a role before its pool goes, pools go before their cohorts and backends, children before parents.
        Settings have no absence, so they go back to their defaults."""
        for each in self._of_kind(OwnedKind.SETTINGS, ObjectAction.REMOVE):
            self._set_settings(each, SETTINGS_DEFAULTS)
        for each in self._of_kind(OwnedKind.ROLE, ObjectAction.REMOVE):
            self._revoke(each, set((each.before or {})[USERS]))
        for each in self._of_kind(OwnedKind.GPU_QUOTA, ObjectAction.REMOVE):
            self._attempt(each, partial(delete_gpu_quota, DeleteGpuQuota(namespace=each.name), **self._how))
        for each in self._of_kind(OwnedKind.POOL, ObjectAction.REMOVE):
            if (each.before or {}).get(SUBPOOLS_OWNER) == OwnerKind.GIT:
                for short in _subpools(each.before):
                    self._delete_subpool(each, short)
            self._attempt(each, partial(delete_pool, DeletePool(name=each.name), **self._how))
        parents = _cohort_parents()
        cohorts = self._of_kind(OwnedKind.COHORT, ObjectAction.REMOVE)
        for each in sorted(cohorts, key=lambda each: (-_depth(each.name, parents), each.name)):
            self._attempt(each, partial(delete_cohort, DeleteCohort(name=each.name), **self._how))
        for each in self._of_kind(OwnedKind.BACKEND, ObjectAction.REMOVE):
            self._attempt(each, partial(delete_backend, DeleteBackend(name=each.name), **self._how))

    def _set_owners(self) -> None:
        """A commit is noted with the objects that it changed, a path with every object."""
        forget_owners([each.key for each in self.comparison.changes if each.action is ObjectAction.REMOVE])
        if self.options.owner is OwnerKind.ADMIN:
            forget_owners(self.files.objects)
            return
        present, changed = read_owners(), {each.key for each in self.comparison.changes}
        set_owners(
            {
                key: GitOwner(
                    self.options.source,
                    place.path,
                    self.options.commit if key in changed or key not in present else present[key].commit,
                    place.body.get(SUBPOOLS_OWNER) == OwnerKind.GIT,
                )
                for key, place in self.files.objects.items()
            }
        )


def _subpools(body: Mapping[str, Any] | None) -> dict[str, Quota]:
    return dict((body or {}).get(SUBPOOLS, {}))


def _smaller(quota: Quota, wanted: Quota) -> Quota:
    """The smaller quota, flavor by flavor; of a pool that begins or stops to have flavors the present one."""
    if isinstance(quota, Mapping) and isinstance(wanted, Mapping):
        return {flavor: min(gpus, wanted.get(flavor, 0)) for flavor, gpus in quota.items()}
    return quota if isinstance(quota, Mapping) or isinstance(wanted, Mapping) else min(quota, wanted)


def _without_subpools(body: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if body is None:
        return None
    return {key: value for key, value in body.items() if key not in (SUBPOOLS, SUBPOOLS_OWNER)}


def _cohort_parents() -> dict[str, str | None]:
    return dict(Cohort.objects.values_list("name", "parent__name"))


def _depth(name: str, parents: Mapping[str, str | None]) -> int:
    """The number of cohorts above; bounded, because parents in files may form a cycle, which the service refuses."""
    depth, above = 0, parents.get(name)
    while above is not None and depth <= len(parents):
        depth, above = depth + 1, parents.get(above)
    return depth
