"""Cohorts: put, change, move, remove (design, A4, D12).

Only `osmo-admin` writes cohorts. A change of a quota or a limit stops no work: usage beyond the new amount is a debt,
which the quota tree shows until enough work has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

from pools.database.transactions import change
from pools.domain import names
from pools.domain.changes.cohorts import CreateCohort, DeleteCohort, PatchCohort, PutCohort
from pools.domain.configuration.cohort_config import CohortSettings, editable_body, parse_cohort
from pools.domain.configuration.pool_config import without_cohort
from pools.domain.configuration.version_check import check_version
from pools.domain.errors import BadInput, Conflict, Fault, NotFound, Violation
from pools.domain.people.roles import Actor, Permission
from pools.domain.quota.debts import new_debts
from pools.domain.quota.rules import find_closed_cycle
from pools.domain.quota.stored_quotas import StoredQuotas, rows_from_stored, stored_from_rows, without_limits
from pools.domain.structured_input.unset_keys import unset_key_warnings
from pools.domain.values.amounts import flavor_of, gpu_words, is_gpu
from pools.domain.values.counting import counted, first_names
from pools.locking import lock_cohort_trees, lock_configuration, lock_pool_trees
from pools.models import Cohort, Pool
from pools.permissions import require_platform
from pools.representations.pool import pool_settings_of
from pools.selectors.quotas.backend_capacity import debt_messages, read_capacities
from pools.selectors.quotas.quota_facts import read_admission_tree
from pools.services.changes.approval_check import require_no_approvals, require_no_move_approvals
from pools.services.changes.rows import update_columns
from pools.services.changes.seen_state import require_as_seen
from pools.services.configuration.cohort_cycles import mark_cycles
from pools.services.configuration.config_history import record_revision
from pools.services.configuration.implicit_cohorts import delete_unused_implicit_cohorts, get_or_create_cohorts

Body = Mapping[str, Any]
ARROW = " → "


@dataclass(frozen=True, slots=True)
class CohortResult:
    """A cohort after a change, and the warnings about it."""

    row: Cohort
    warnings: tuple[str, ...] = ()


def put_cohort(
    command: PutCohort, *, actor: Actor, description: str = "", expected_version: int | None = None
) -> CohortResult:
    """Create a cohort or replace its configuration. With another `parent` it moves, and everything below it with it.

    Raises BadInput with every fault at once (form, names, limits without a parent, the whole cycle that its parent
    would close), Stale, Forbidden.
    """
    return _write(actor, command.name, lambda _: command.body, description, expected_version)


def create_cohort(command: CreateCohort, *, actor: Actor, description: str = "") -> CohortResult:
    """Create a cohort that is not configured yet. An implicit cohort of that name becomes explicit. Raises Conflict if
    the cohort is configured already, and the errors of :func:`put_cohort`."""

    def new_body(row: Cohort | None) -> Body:
        if row is not None and row.explicit:
            message = f"Cohort {command.name} exists already. Configure it on its own page."
            raise Conflict(message, [Violation("name", Fault.NAME_TAKEN, message)])
        return command.body

    return _write(actor, command.name, new_body, description, None)


def patch_cohort(
    command: PatchCohort, *, actor: Actor, description: str = "", expected_version: int | None = None
) -> CohortResult:
    """Replace only the given keys. Another `parent` moves the cohort with everything below it; without a parent the
    cohort becomes the root of its own tree, where limits have no meaning, so a patch without `quotas` drops the limits.

    Raises the errors of :func:`put_cohort`, and NotFound.
    """

    def patched_body(row: Cohort | None) -> Body:
        settings, patch = _require_row(command.name, row).settings, command.patch
        if "parent" in patch and not patch["parent"] and "quotas" not in patch:
            stored = without_limits(stored_from_rows(settings.quotas))
            settings = CohortSettings(settings.parent, rows_from_stored(stored), settings.weight)
        return editable_body(settings) | dict(patch)

    return _write(actor, command.name, patched_body, description, expected_version)


def delete_cohort(
    command: DeleteCohort, *, actor: Actor, description: str = "", expected_version: int | None = None
) -> None:
    """Remove a cohort with its quota. With `orphan` its children become roots of their own trees and lose their
    limits, which a root cannot have; without `orphan` a cohort with children raises Conflict, which names them."""
    require_platform(actor)
    with change(actor=actor, description=description):
        lock_configuration()
        row, name = get_cohort(command.name), command.name
        _check_version(name, row, expected_version)
        pools = lock_pool_trees(list(row.pools.values_list("pk", flat=True)))
        lock_cohort_trees([row.pk])
        require_as_seen()
        children = list(row.children.order_by("name"))
        if (children or pools) and not command.orphan:
            raise _children_conflict(name, children, pools)
        require_no_approvals([(pool, without_cohort(pool_settings_of(pool)), f"pools.{pool.name}") for pool in pools])
        require_no_move_approvals({child.name: (name, None) for child in children})
        for child in children:
            child.parent, child.quotas = None, without_limits(child.quotas)
            child.save(update_fields=["parent", "quotas"])
        for pool in pools:
            pool.save(update_fields=pool.leave_cohort())
        row.delete()
        delete_unused_implicit_cohorts()
        mark_cycles()
        if pools:  # their configuration changed, so it has a revision
            record_revision(actor=actor, name="", description=description or f"cohort {name} was deleted", tags=None)


def read_cohort(actor: Actor, name: str) -> Cohort:
    """One cohort, for platform viewers."""
    require_platform(actor, Permission.PLATFORM_READ)
    return get_cohort(name)


def get_cohort(name: str) -> Cohort:
    """The cohort of this name. Raises NotFound."""
    return _require_row(name, Cohort.objects.select_related("parent").filter(name=name).first())


def _require_row(name: str, row: Cohort | None) -> Cohort:
    if row is None:
        raise NotFound(f"Cohort {name[:80]} does not exist.")
    return row


def _write(
    actor: Actor,
    name: str,
    body_from: Callable[[Cohort | None], Body],
    description: str,
    expected_version: int | None,
) -> CohortResult:
    """Store the configuration that `body_from` returns for the existing cohort, or for None if there is none."""
    require_platform(actor)
    with change(actor=actor, description=description):
        lock_configuration()
        row = Cohort.objects.select_related("parent").filter(name=name).first()
        _check_version(name, row, expected_version)
        body = body_from(row)
        settings, faults = parse_cohort(body)
        faults += _settings_violations(name, settings)
        if faults:
            raise BadInput.of(faults)
        if row is not None:
            require_no_move_approvals({name: (row.parent.name if row.parent else None, settings.parent)})
        result = _save(name, row, settings)
        shown = {
            "name": name,
            "explicit": True,
            "cohorts": list(result.row.children.order_by("name").values_list("name", flat=True)),
            "pools": list(result.row.pools.order_by("name").values_list("name", flat=True)),
        }
        return replace(result, warnings=(*result.warnings, *unset_key_warnings(body, shown)))


def _settings_violations(name: str, settings: CohortSettings) -> Iterator[Violation]:
    """Violations of the rules for names, and the cycle that the parent would close."""
    yield from names.cohort_name_violations(name, "name")
    if settings.parent is None:
        return
    yield from names.cohort_name_violations(settings.parent, "parent")
    parents = dict(Cohort.objects.values_list("name", "parent__name"))
    if closed_cycle := find_closed_cycle(parents, name, settings.parent):
        path_text = ARROW.join([*closed_cycle, name])
        message = f"{name} cannot stand below {settings.parent}: the parents would form a cycle: {path_text}."
        yield Violation("parent", Fault.CYCLE, message, numbers=(("cycle", closed_cycle),))


def _save(name: str, row: Cohort | None, settings: CohortSettings) -> CohortResult:
    parents = get_or_create_cohorts([settings.parent] if settings.parent else [])
    parent = parents[settings.parent] if settings.parent else None
    touched = [each.pk for each in (row, parent) if each is not None]
    roots = lock_cohort_trees(touched)
    before = read_admission_tree(roots)
    own_before: Mapping[str, int] = {} if row is None else _own_gpus(row.quotas)
    columns = {
        "parent_id": parent.pk if parent else None,
        "explicit": True,
        "quotas": stored_from_rows(settings.quotas),
        "weight": Decimal(Fraction(settings.weight).numerator) / Fraction(settings.weight).denominator,
    }
    if row is None:
        row = Cohort.objects.create(name=name, **columns)
    else:
        update_columns(row, columns)
    delete_unused_implicit_cohorts()
    mark_cycles()
    added_debts = new_debts(before, read_admission_tree({*roots, row.pk}))
    warnings = [*debt_messages(added_debts), *_uncounted_quota_warnings(settings)]
    own = _own_gpus(stored_from_rows(settings.quotas))
    return CohortResult(get_cohort(name), (*warnings, *_excess_warnings(row, own, own_before)))


def _own_gpus(quotas: StoredQuotas) -> dict[str, int]:
    """The GPUs of each flavor."""
    return {flavor_of(key): amounts.get("nominal") or 0 for key, amounts in quotas.items() if is_gpu(key)}


def _excess_warnings(row: Cohort, own: Mapping[str, int], before: Mapping[str, int]) -> Iterator[str]:
    """Warn, as for a pool, if the nodes have fewer GPUs of a flavor than are promised: by the cohort itself, and by the
    pools on the clusters that have pools below it, or on all clusters while it has none."""
    raised = {flavor: gpus for flavor, gpus in own.items() if gpus > before.get(flavor, 0)}
    if not raised:
        return
    parents = dict(Cohort.objects.values_list("pk", "parent"))
    below = [pk for pk in parents if row.pk in _and_above(pk, parents)]
    pools = Pool.objects.roots().filter(cohort__in=below, archived=False)
    backends = set(pools.exclude(backend=None).values_list("backend", flat=True))
    found = [each for each in read_capacities(backends or None).values() if each.gpus is not None]
    where = first_names([each.backend for each in found], limit=3)
    for flavor, gpus in raised.items() if found else ():
        kinds = [each.by_flavor[flavor] for each in found if flavor in each.by_flavor]
        there, promised = sum(each.gpus for each in kinds), sum(each.quota for each in kinds)
        if promised + gpus > there:
            words = gpu_words(flavor, [flavor] if any(each.is_of_parts for each in kinds) else ())
            yield (
                f"Cohort {row.name} has {counted(gpus, *words)} of its own, and the pools on {where} have "
                f"{promised:,} together; the nodes there have {there:,}: guaranteed work may wait for a node although "
                "its quota is free. Lower a quota, or add nodes."
            )


def _and_above(cohort: int, parents: Mapping[int, int | None]) -> set[int]:
    found: set[int] = set()
    above: int | None = cohort
    while above is not None and above not in found:  # there are cycles that are shown as faults
        found.add(above)
        above = parents.get(above)
    return found


def _uncounted_quota_warnings(settings: CohortSettings) -> Iterator[str]:
    """Warn about quotas of other resources: admission checks GPUs only, because pools have a quota of GPUs only."""
    others = [key for key in stored_from_rows(settings.quotas) if not is_gpu(key)]
    if others:
        yield (
            f"{first_names(others)}: shown in the tree, but admission does not check it, because pools have quotas of "
            "GPUs only."
        )


def _check_version(name: str, row: Cohort | None, expected: int | None) -> None:
    check_version(f"Cohort {name}", expected, None if row is None else row.version)


def _children_conflict(name: str, cohorts: Sequence[Cohort], pools: Sequence[Pool]) -> Conflict:
    found = []
    for what, path, rows in (("cohorts", "cohorts", cohorts), ("pools", "pools", pools)):
        if rows:
            message = (
                f"Cohort {name} has {len(rows)} {what if len(rows) > 1 else what[:-1]} below it "
                f"({first_names([row.name for row in rows])}), so it cannot be deleted. Move them first, or delete it "
                "with orphan=True, which makes each the top of its own tree."
            )
            found.append(Violation(path, Fault.HAS_CHILDREN, message, numbers=((what, len(rows)),)))
    return Conflict.of(found)  # type: ignore[return-value]
