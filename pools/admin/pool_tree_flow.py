"""Changes of a pool's tree in the browser: what their previews show of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from django.urls import reverse

from pools.admin.base import Breadcrumbs
from pools.admin.confirm_flow import ChangeForm, ConfirmFlow
from pools.domain.change_effects import NodeEffect, consequence_messages, node_effects
from pools.models import Pool, Reservation
from pools.selectors import pool_tree
from pools.selectors.pool_balance import pool_tree_body
from pools.services.dry_run import effect_on_pool_tree


@dataclass(slots=True)
class PoolTreeFlow(ConfirmFlow):
    """A change of one pool's tree; without a pool it makes one."""

    pool: Pool | None

    form_template: ClassVar[str] = "osmo/change_form.html"
    effect_template: ClassVar[str] = "osmo/change_effect.html"

    # --- what a subclass says ---
    @property
    def root(self) -> Pool:
        """The pool, in the walks that begin at one."""
        return cast("Pool", self.pool)

    def root_name(self, form: ChangeForm) -> str:
        """The tree that changes."""
        return self.root.name

    def closed(self) -> str:
        """Why this change is of no use now, before somebody fills in a form for nothing."""
        return ""

    def remaining_work(self, effect: dict[str, Any]) -> list[Reservation]:
        """Work that goes on on what is taken away."""
        return []

    def effect_messages(
        self, nodes: tuple[NodeEffect, ...], remaining: list[Reservation], result: Any
    ) -> tuple[str, ...]:
        """What the preview says before its table."""
        return consequence_messages(nodes)

    # --- the same for all of them ---
    def breadcrumbs(self) -> Breadcrumbs:
        pool = [(self.pool.name, reverse("admin:pools_pool_change", args=[self.pool.name]))] if self.pool else []
        return [("Pools", reverse("admin:index")), *pool]

    def form_context(self) -> dict[str, Any]:
        tree = pool_tree.pool_trees_of([self.pool])[0] if self.pool else None
        return {"pool": self.pool, "tree": tree, "notice": self.closed()}

    def dry_run(self, form: ChangeForm, operation: Callable[[], object]) -> dict[str, Any]:
        return effect_on_pool_tree(self.root_name(form), operation, actor=self.actor)

    def effect_context(self, effect: dict[str, Any], result: Any) -> dict[str, Any]:
        nodes, staying = node_effects(effect["before"], effect["after"]), self.remaining_work(effect)
        return {
            "pool": self.pool,
            "nodes": nodes,
            "sentences": (*self.effect_messages(nodes, staying, result), *result.warnings),
            "staying": staying,
            "reclaimed": effect["may_be_reclaimed"],
            "reclaimed_elsewhere": effect["may_be_reclaimed_elsewhere"],
        }

    def current_state(self) -> dict[str, Any] | None:
        return pool_tree_body(self.pool) if self.pool else None

    def fingerprint(self, state: dict[str, Any] | None) -> str:
        """The versions of all rows of the tree, which move with quotas and states and not with use."""
        if state is None:
            return ""
        parts = [f"{part['subpool_name']}:{part['version']}" for part in state["subpools"]]
        return " ".join([str(state["version"]), *parts])

    def after(self, form: ChangeForm) -> str:
        return reverse("admin:pools_pool_change", args=[self.root_name(form)])
