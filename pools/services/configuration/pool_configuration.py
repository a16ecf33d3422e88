"""The steps of every write of a pool's configuration: parse, check against the ledger, write, number the revision.

All faults of all pools of one request are found before anything is written. The callers hold
:func:`pools.locking.lock_configuration`, inside :func:`configuration_change`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from pools.database.transactions import change
from pools.domain import names
from pools.domain.configuration.flavors import parts_among
from pools.domain.configuration.platforms import default_platform, empty_platform_message
from pools.domain.configuration.pool_config import PoolSettings, no_effect_warnings, parse_pool
from pools.domain.configuration.pool_fields import COLUMNS
from pools.domain.configuration.version_check import check_version
from pools.domain.errors import BadInput, Conflict, Fault, NotFound, Violation
from pools.domain.people.roles import Actor
from pools.domain.quota.capacity import BackendCapacity, oversubscription_message
from pools.domain.quota.debts import new_debts
from pools.domain.quota.pool_balance import PoolBalance, guarantee_violation
from pools.domain.quota.stored_quotas import StoredFlavors, gpus_by_flavor
from pools.domain.structured_input.faults import join_words
from pools.domain.subpool_lifecycle import SubpoolState
from pools.domain.values.amounts import DEFAULT_FLAVOR, Gpus, gpu_words
from pools.domain.values.counting import counted
from pools.locking import lock_configuration, lock_pool_trees
from pools.models import Backend, Cohort, Node, Pool
from pools.permissions import unknown_pool
from pools.representations.pool import pool_status_of
from pools.selectors.clusters import is_observed
from pools.selectors.quotas.backend_capacity import debt_messages, read_capacities
from pools.selectors.quotas.pool_balance import read_balances
from pools.selectors.quotas.quota_facts import cohort_roots, read_admission_tree
from pools.services.changes.approval_check import require_no_approvals
from pools.services.changes.observed_work import hand_over_observed_work
from pools.services.configuration.config_history import record_revision
from pools.services.configuration.implicit_cohorts import delete_unused_implicit_cohorts, get_or_create_cohorts
from pools.services.configuration.pending_work import pending_work
from pools.services.people.users import create_pool_roles

_STATE_CODES = frozenset({Fault.LIVE_WORK})


@dataclass(frozen=True, slots=True)
class PoolResult:
    """A pool after a change, and the warnings about it. `platform`: the one that the change was about."""

    row: Pool
    warnings: tuple[str, ...] = ()
    reactivated: bool = False
    platform: str = ""


@dataclass(frozen=True, slots=True)
class _DesiredPool:
    """The desired configuration of one pool. `row` is None for a new pool; `path` is its position in the request."""

    name: str
    body: Mapping[str, Any]
    path: str
    settings: PoolSettings
    row: Pool | None


@contextmanager
def configuration_change(*, actor: Actor, name: str, description: str, tags: Sequence[str] | None) -> Iterator[None]:
    """The transaction of one configuration write, which ends with its revision. `name` is the pool, '' for many."""
    with change(actor=actor, description=description):
        lock_configuration()
        yield
        record_revision(actor=actor, name=name, description=description, tags=tags)


def lock_pool_for_change(name: str, *, expected_version: int | None, forbidden_action: str) -> Pool:
    """Lock the tree of a top-level pool and return the pool. Raises NotFound, Stale, and Conflict for an archived pool,
    whose message says that the pool cannot be `forbidden_action` (a participle such as "renamed")."""
    row = next(iter(_lock_pools([name])), None)
    if row is None:
        raise unknown_pool(name)
    check_version(name, expected_version, row.version)
    if row.archived:
        message = (
            f"Pool {name} is archived, so it cannot be {forbidden_action}. PUT its configuration to bring it back."
        )
        raise Conflict(message, [Violation("name", Fault.ARCHIVED, message)])
    return row


def write_pools(
    bodies: Mapping[str, Mapping[str, Any]], *, nested: bool, expected_version: int | None = None
) -> list[PoolResult]:
    """Put these configurations, new pools and archived ones included, or none of them. With `nested`
    the path of a fault begins with the name of its pool. Raises BadInput or Conflict with every fault of every pool."""
    rows = {row.name: row for row in _lock_pools(list(bodies))}
    desired, faults = [], []
    for name, body in bodies.items():
        row = rows.get(name)
        check_version(name, expected_version, None if row is None else row.version)
        path = name if nested else ""
        settings, found = parse_pool(body, path=path)
        faults += found
        desired.append(_DesiredPool(name, body, path, settings, row))
    backends = {row.name: row for row in Backend.objects.filter(name__in={each.settings.backend for each in desired})}
    left = {each.name: _leave_observed_cluster(each, backends) for each in desired if each.row is not None}
    facts, unread = read_balances(rows.values()), {fault.path for fault in faults if fault.code != Fault.BAD_NAME}
    for each in desired:
        broken = _pool_violations(each, facts.get(each.row.pk) if each.row else None, backends)
        # What could not be read has another value than the one that was given, and is not judged.
        faults += [fault for fault in broken if fault.path not in unread]
    raise_violations(faults)
    require_no_approvals([(each.row, each.settings, each.path) for each in desired if each.row is not None])
    results = _write(desired, facts, backends)
    return [replace(each, warnings=(*left.get(each.row.name, ()), *each.warnings)) for each in results]


def _leave_observed_cluster(desired: _DesiredPool, backends: Mapping[str, Backend]) -> tuple[str, ...]:
    """Where the pool leaves an observed cluster, end the record of the work that was seen there: it belongs to the
    scheduler of that cluster, and goes on. Returns the warning about it."""
    row, backend = desired.row, backends.get(desired.settings.backend)
    if row is None or row.backend is None or backend is None or row.backend.pk == backend.pk:
        return ()
    if not is_observed(row.backend):
        return ()
    return hand_over_observed_work(row.backend, row)


def raise_violations(faults: Sequence[Violation]) -> None:
    """Raise the error for these faults: Conflict if only the state forbids the change, else BadInput."""
    if faults:
        raise (Conflict if all(fault.code in _STATE_CODES for fault in faults) else BadInput).of(faults)


def live_work_violation(facts: PoolBalance, path: str, consequence: str) -> Violation | None:
    """The violation that `consequence` follows from live work in the tree; None without live work."""
    live = facts.shared_usage.live_workflows + sum(part.usage.live_workflows for part in facts.subpools)
    if not live:
        return None
    return Violation(
        path,
        Fault.LIVE_WORK,
        f"Pool {facts.name} has {counted(live, 'active workflow')}, so {consequence}. Wait until "
        "nothing is active there, or cancel what is.",
        numbers=(("live_workflows", live),),
    )


def _lock_pools(pools: Sequence[str]) -> list[Pool]:
    ids = Pool.objects.roots().filter(name__in=pools).values_list("pk", flat=True)
    return lock_pool_trees(set(ids))


def _pool_violations(
    desired: _DesiredPool, facts: PoolBalance | None, backends: Mapping[str, Backend]
) -> Iterator[Violation]:
    """The violations of the ledger's rules by one pool."""
    at = f"{desired.path}." if desired.path else ""
    backend = backends.get(desired.settings.backend)
    if backend is None and desired.settings.backend:
        message = "There is no cluster of this name. The page Clusters and osmo backend list show the names."
        yield Violation(f"{at}backend", Fault.UNKNOWN_BACKEND, message)
    if backend is not None:
        for fault in _unknown_flavors(desired.settings, backend):
            yield replace(fault, path=f"{at}{fault.path}")
    if desired.settings.cohort:
        yield from names.cohort_name_violations(desired.settings.cohort, f"{at}cohort")
    if desired.row is None or facts is None:
        namespace = backend.namespace if backend else ""
        yield from names.short_name_violations(
            desired.name, namespace=namespace, parent=None, path=desired.path or "name"
        )
        return
    if backend is not None and backend.pk != desired.row.backend_id:
        yield from _move_violations(desired, facts, backend, f"{at}backend")
    flavors = desired.settings.flavors
    if not flavors and (cut := guarantee_violation(facts, desired.settings.effective_guarantee)):
        yield replace(cut, path=f"{at}{cut.path}")
    for fault in _flavor_violations(facts, flavors, parts_among(backend.flavors) if backend else ()):
        yield replace(fault, path=f"{at}{fault.path}")


def _unknown_flavors(settings: PoolSettings, backend: Backend) -> Iterator[Violation]:
    """The flavors of the pool that its cluster does not name."""
    known = [each["name"] for each in backend.flavors]
    for row in settings.flavors:
        if row["flavor"] not in (*known, DEFAULT_FLAVOR):
            names = join_words([*known, DEFAULT_FLAVOR])
            yield Violation(
                f"resources.flavors.{row['flavor']}",
                Fault.UNKNOWN_FLAVOR,
                f"Cluster {backend.name} names no flavor {row['flavor']}. It has {names}.",
                numbers=(("flavors", [*known, DEFAULT_FLAVOR]),),
            )


def _flavor_violations(facts: PoolBalance, flavors: StoredFlavors, parts: Collection[str]) -> Iterator[Violation]:
    """The reasons why the quota of the pool may not be divided so: its ACTIVE subpools stay within each flavor, and a
    flavor goes only when no subpool and no work has it any more."""
    wanted = gpus_by_flavor(flavors)
    if bool(wanted) != bool(facts.flavors):
        if drain := _drain_violation(facts):
            yield drain
        for flavor, gpus in list(wanted.items())[:1]:  # the subpools get their quotas of the first flavor
            if not drain and (cut := guarantee_violation(facts, gpus, flavor=flavor, parts=parts)):
                yield cut
        return
    for flavor, kind in facts.kinds.items():
        if flavor in wanted:
            if cut := guarantee_violation(kind, wanted[flavor], flavor=flavor, parts=parts):
                yield cut
        elif flavor in facts.flavors and (used := _left_of(kind, gpu_words(flavor, parts, is_named=False))):
            yield Violation(
                f"resources.flavors.{flavor}",
                Fault.IN_USE,
                f"Pool {facts.name} keeps the flavor {flavor}: {used}. Give it a guarantee of 0, and leave it out when "
                "nothing is left.",
                numbers=(("allocated", kind.allocated), ("total_usage", kind.total_usage)),
            )


def _left_of(kind: PoolBalance, words: tuple[str, str]) -> str:
    """What subpools and work still have of a flavor, in words."""
    draining = sum(part.last_quota for part in kind.subpools if part.state is SubpoolState.DELETING)
    amounts = (
        (kind.allocated, "its subpools have {} of it"),
        (draining, "subpools that drain have {} of it"),
        (kind.total_usage, "its work holds {} of it"),
    )
    return ", ".join(text.format(counted(gpus, *words)) for gpus, text in amounts if gpus)


def _drain_violation(facts: PoolBalance) -> Violation | None:
    """While a subpool drains, its quota is frozen, so the pool cannot begin or stop to have flavors."""
    draining = [part.name for part in facts.subpools if part.state is SubpoolState.DELETING and part.last_quota]
    if not draining:
        return None
    message = (
        f"Subpools of pool {facts.name} drain ({join_words(draining)}), so it cannot begin or stop to have quotas by "
        "flavor. Wait until they are archived."
    )
    return Violation("resources.flavors", Fault.WRONG_STATE, message)


def _move_violations(desired: _DesiredPool, facts: PoolBalance, backend: Backend, path: str) -> Iterator[Violation]:
    """A pool moves to another backend only without work, and where all its queues have names."""
    if live := live_work_violation(facts, path, f"it cannot move to cluster {backend.name}"):
        yield live
    yield from names.short_name_violations(desired.name, namespace=backend.namespace, parent=None, path=path)
    for part in facts.subpools:
        yield from names.short_name_violations(part.name, namespace=backend.namespace, parent=desired.name, path=path)


def _write(
    desired: Sequence[_DesiredPool], facts: Mapping[int, PoolBalance], backends: Mapping[str, Backend]
) -> list[PoolResult]:
    warnings: dict[str, tuple[str, ...]] = {each.name: tuple(_no_effect_warnings(each)) for each in desired}
    reactivated, new = set(), []
    had: dict[str, str | None] = {}
    cohorts = get_or_create_cohorts({each.settings.cohort for each in desired if each.settings.cohort})
    touched = {row.pk for row in cohorts.values()}
    touched |= {each.row.cohort_id for each in desired if each.row and each.row.cohort_id}
    before = read_admission_tree(root_ids := cohort_roots(touched).values())
    backend_ids = {backends[each.settings.backend].pk for each in desired}
    capacities = read_capacities(backend_ids)
    for each in desired:
        columns = _columns(each.settings, backends, cohorts)
        if each.row is None:
            new.append(Pool(name=each.name, **columns))
            continue
        if each.row.archived:
            reactivated.add(each.name)
        warnings[each.name] += (
            *_drain_warnings(facts[each.row.pk], each.settings, each.row),
            *_topology_warnings(each.row, each.settings),
        )
        warnings[each.name] += _follow_flavors(each.row, each.settings.flavors)
        if each.row.backend_id == columns["backend_id"] and not each.row.archived:
            had[each.name] = default_platform(each.row.config)
        different = [column for column, value in columns.items() if getattr(each.row, column) != value]
        for column in different:
            setattr(each.row, column, columns[column])
        if different:
            each.row.save(update_fields=different)
    Pool.objects.bulk_create(new)
    create_pool_roles(*(row.name for row in new))
    delete_unused_implicit_cohorts()
    debts = tuple(debt_messages(new_debts(before, read_admission_tree(root_ids))))
    updated_rows = Pool.objects.select_related("backend", "cohort").filter(name__in=[each.name for each in desired])
    rows = {row.name: row for row in updated_rows}
    oversubscribed = _oversubscription_messages(capacities, read_capacities(backend_ids))
    _warn_of_platforms(warnings, rows.values())
    _warn_of_empty_defaults(warnings, rows.values(), had)
    return [
        PoolResult(
            rows[each.name],
            (
                *warnings.get(each.name, ()),
                *oversubscribed.get(backends[each.settings.backend].pk, ()),
                *debts,
            ),
            each.name in reactivated,
        )
        for each in desired
    ]


def _follow_flavors(row: Pool, flavors: StoredFlavors) -> tuple[str, ...]:
    """Where a pool begins to have flavors, give its ACTIVE subpools their quotas of the first one; where it stops, take
    the flavors away. A warning says what happened."""
    if bool(row.flavors) == bool(flavors):
        return ()
    parts = list(Pool.objects.filter(parent=row, subpool_state=SubpoolState.ACTIVE).order_by("name"))
    for part in parts:
        quotas = (part.last_quota, part.quota_after)
        part.flavors, part.flavors_after = (
            [{"flavor": flavors[0]["flavor"], "quota": quota}] if flavors and quota else [] for quota in quotas
        )
        part.save(update_fields=["flavors", "flavors_after"])
    if not parts or not flavors:
        return ()
    return (f"The quotas of {join_words([part.name for part in parts])} are of the flavor {flavors[0]['flavor']} now.",)


def _warn_of_platforms(warnings: dict[str, tuple[str, ...]], pools: Iterable[Pool]) -> None:
    """Warn about platforms whose nodes have none of the flavors of their pool: work with such a platform would wait for
    ever. One query where a pool names flavors."""
    named = [row for row in pools if row.flavors]
    there: dict[tuple[int, str], set[str]] = defaultdict(set)
    nodes = Node.objects.filter(backend__in={row.backend_id for row in named}, gpus__gt=0).order_by()
    if named:
        for backend, platform, flavor in nodes.values_list("backend", "platform", "flavor").distinct():
            there[backend, platform].add(flavor)
    for row in named:
        for platform in row.platforms:
            found = there[row.backend_id or 0, platform]
            if found and not found & set(row.gpu_flavors):
                kinds = join_words(sorted(found))
                message = (
                    f"The nodes of platform {platform} are {kinds}, which pool {row.name} has no quota of: work with "
                    "this platform would never start."
                )
                warnings[row.name] = (*warnings[row.name], message)


def _warn_of_empty_defaults(
    warnings: dict[str, tuple[str, ...]], pools: Collection[Pool], had: Mapping[str, str | None]
) -> None:
    """Warn about a default platform that is new (`had`: the former ones on the same cluster) and that none of the nodes
    of its cluster has. Nothing is known about a cluster without nodes. One query."""
    there: dict[int, set[str]] = defaultdict(set)
    nodes = Node.objects.filter(backend__in={row.backend_id for row in pools}).order_by()
    for backend, name in nodes.values_list("backend", "platform").distinct():
        there[backend].add(name)
    for row in pools:
        found, platform = there.get(row.backend_id or 0, set()), default_platform(row.config)
        if row.backend is None or not found or platform is None or platform in found:
            continue
        if row.name not in had or had[row.name] != platform:
            warnings[row.name] = (*warnings[row.name], empty_platform_message(row.backend.name, platform))


def _oversubscription_messages(
    before: Mapping[int, BackendCapacity], after: Mapping[int, BackendCapacity]
) -> dict[int, tuple[str, ...]]:
    """The warning for each backend whose nodes have fewer GPUs than the quotas, if the quotas grew."""
    return {
        pk: (oversubscription_message(capacity),)
        for pk, capacity in after.items()
        if capacity.is_oversubscribed and capacity.promises_more_than(before[pk])
    }


def _columns(settings: PoolSettings, backends: Mapping[str, Backend], cohorts: Mapping[str, Cohort]) -> dict[str, Any]:
    return {
        "backend_id": backends[settings.backend].pk,
        "cohort_id": cohorts[settings.cohort].pk if settings.cohort else None,
        **{column: getattr(settings, column) for column in COLUMNS},
        "config": dict(settings.config),
        "archived": False,
    }


def _no_effect_warnings(desired: _DesiredPool) -> Iterator[str]:
    """Warn about values in the request that have no effect."""
    row = desired.row
    shown: dict[str, Any] = {"name": desired.name, "archived": row is not None and row.archived}
    shown |= dict.fromkeys(("parent_pool", "subpool_name", "subpool_state", "gpu_quota"))
    if row is not None:
        shown["status"] = pool_status_of(row)
    yield from no_effect_warnings(desired.body, desired.settings, {} if row is None else row.config, shown)


def _drain_warnings(facts: PoolBalance, settings: PoolSettings, row: Pool) -> tuple[str, ...]:
    """Warn about work that a smaller quota leaves to drain; none of it is stopped."""
    if not settings.flavors:
        return _drain_messages(facts, settings.effective_guarantee)
    wanted = gpus_by_flavor(settings.flavors)
    return tuple(
        message
        for flavor, kind in facts.kinds.items()
        for message in _drain_messages(kind, wanted.get(flavor, 0), gpu_words(flavor, row.part_flavors)[1])
    )


def _drain_messages(facts: PoolBalance, guarantee: Gpus, gpus: str = "GPUs") -> tuple[str, ...]:
    after = replace(facts, guarantee=guarantee)
    if after.shared_available >= 0:
        return ()
    message = (
        f"{after.shared_usage.used} {gpus} of HIGH and NORMAL work run on the unallocated part of {facts.name}, "
        f"which is {after.unallocated}: nothing is stopped, {-after.shared_available} {gpus} drain as that work "
        "ends."
    )
    return (message,)


def _topology_warnings(row: Pool, settings: PoolSettings) -> Iterator[str]:
    """Warn about waiting work on a cluster that requires a topology key which the pool loses."""
    lost = row.topology_labels.keys() - {each["key"] for each in settings.config.get("topology_keys", ())}
    if not lost or row.backend is None or row.backend.kind != Backend.Kind.KUBERNETES:
        return
    if names := pending_work.names_requiring(row, lost):
        yield (
            f"{len(names)} waiting workflow{'s require' if len(names) > 1 else ' requires'} the topology "
            f"key{'s' if len(lost) > 1 else ''} {join_words(sorted(lost))}, which pool {row.name} loses: "
            f"{join_words(names)}. Without the key it cannot be placed as required, so it fails instead of "
            "starting. Keep the key until this work has started, or cancel the work."
        )


def unknown_platform(pool: str) -> NotFound:
    """The answer for a platform that the pool does not have."""
    return NotFound(f"Pool {pool} has no platform of this name.")
