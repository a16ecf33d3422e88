"""The preview of a change of one pool's tree: each node before and after, and the affected work."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic

from django.urls import reverse

from pools.admin.base import Breadcrumbs
from pools.admin.confirm_flow import ResultT
from pools.admin.effect_tables import changed_fields, changed_numbers
from pools.admin.live_notes import LiveNote
from pools.domain.change_effects import NodeEffect, consequence_messages, node_effects
from pools.domain.list_columns import HOLDER_COLUMNS
from pools.domain.people.roles import Actor
from pools.domain.quota.usage_bar import UsageBar
from pools.models import Cohort, Pool, Reservation
from pools.representations.subpool import pool_tree_body
from pools.selectors.quotas import pool_tree
from pools.selectors.quotas.pool_tree import PoolTree
from pools.services.changes.dry_run import EffectAnswer, effect_on_pool_tree, warnings_of
from pools.services.configuration.cohort_effects import effect_on_pool

BarsOfPools = dict[str, dict[str, UsageBar]]
EffectMessages = Callable[[tuple[NodeEffect, ...], list[Reservation], ResultT], tuple[str, ...]]


def tree_messages(nodes: tuple[NodeEffect, ...], remaining: list[Reservation], result: object) -> tuple[str, ...]:
    """The messages that follow from the nodes alone."""
    return consequence_messages(nodes)


def reading_bars(operation: Callable[[], object], pools: Collection[str], bars: BarsOfPools) -> Callable[[], object]:
    """The operation, which also writes the bars of these pools after it into `bars`: a dry run takes it back."""

    def run() -> object:
        result = operation()
        bars.update(pool_tree.bars_of(pools))
        return result

    return run


def no_remaining_work(effect: EffectAnswer) -> list[Reservation]:
    """For changes that end no leaf."""
    return []


def no_note(tree: PoolTree | None) -> None:
    """For forms without a quota."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolTreePreview(Generic[ResultT]):
    """The preview of a change of the tree of `root_name`; `pool` is None if the change creates that pool.
    `remaining_work` lists the work that keeps running on a leaf that the change ends. `changes_configuration` adds the
    fields of the configuration that change, and the effect on cohorts. `live_note` is what the form says beside the
    quota, of the tree as it is."""

    form_template: ClassVar[str] = "osmo/change_form.html"
    effect_template: ClassVar[str] = "osmo/change_effect.html"

    actor: Actor
    pool: Pool | None
    root_name: str
    changes_configuration: bool = False
    messages: EffectMessages[ResultT] = tree_messages
    remaining_work: Callable[[EffectAnswer], list[Reservation]] = no_remaining_work
    live_note: Callable[[PoolTree | None], LiveNote | None] = no_note
    lead: str = ""
    bars: BarsOfPools = field(default_factory=dict)

    def form_context(self) -> dict[str, Any]:
        """The tree as it is now, and the names to choose a cohort from."""
        tree = pool_tree.pool_trees_of([self.pool])[0] if self.pool else None
        cohorts = Cohort.objects.order_by("name") if self.changes_configuration else Cohort.objects.none()
        names = list(cohorts.values_list("name", flat=True))
        return {
            "pool": self.pool,
            "tree": tree,
            "live_note": self.live_note(tree),
            "names": names,
            "lead": self.lead,
        }

    def dry_run(self, operation: Callable[[], object]) -> EffectAnswer:
        """The effect on the pool's tree."""
        run = reading_bars(operation, [self.root_name], self.bars)
        if self.changes_configuration:
            return effect_on_pool(self.root_name, run, actor=self.actor)
        return effect_on_pool_tree(self.root_name, run, actor=self.actor)

    def effect_context(self, effect: EffectAnswer, result: ResultT) -> dict[str, Any]:
        """Each node before and after, messages, and the names of the work that stays or is reclaimed."""
        parts = self.pool.part_flavors if self.pool else ()
        nodes = node_effects(effect["before"], effect["after"], self.bars.get(self.root_name), parts)
        remaining = self.remaining_work(effect)
        return {
            "pool": self.pool,
            "nodes": nodes,
            "effect_messages": self.messages(nodes, remaining, result),
            "warnings": warnings_of(result),
            "fields": changed_fields(effect.get("changes", ()), is_new=effect["before"] is None),
            "is_new": effect["before"] is None,
            "is_unchanged": self._is_unchanged(effect),
            "neighbours": changed_numbers(effect.get("neighbours", ())),
            "remaining": remaining,
            "parts": parts,
            "holder_columns": HOLDER_COLUMNS,
            "reclaimed": effect["may_be_reclaimed"],
            "reclaimed_elsewhere": effect["may_be_reclaimed_elsewhere"],
        }

    def _is_unchanged(self, effect: EffectAnswer) -> bool:
        if self.changes_configuration:
            return not effect["changes"]
        before, after = effect["before"], effect["after"]
        return bool(before and after) and self.fingerprint(before) == self.fingerprint(after)

    def current_state(self) -> dict[str, Any] | None:
        """The tree as the API lists it."""
        return {**pool_tree_body(self.pool)} if self.pool else None

    def fingerprint(self, state: dict[str, Any] | None) -> str:
        """The versions of all rows of the tree, which change with quotas and states and not with use."""
        if state is None:
            return ""
        parts = [f"{part['subpool_name']}:{part['version']}" for part in state["subpools"]]
        return " ".join([str(state["version"]), *parts])


def pool_url(name: str) -> str:
    """The page of a top-level pool."""
    return reverse("admin:pools_pool_change", args=[name])


def pool_breadcrumbs(pool: Pool | None) -> Breadcrumbs:
    """The pages above a change of a pool's tree."""
    return [("Pools", reverse("admin:pools_pool_changelist")), *([(pool.name, pool_url(pool.name))] if pool else [])]
