"""The effect of an approval, as dry runs and pages show it: the effect of the requested change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pools.domain.roles import Actor
from pools.services.approvals import get_request
from pools.services.cohort_effects import effect_on_pool
from pools.services.dry_run import effect_on_pool_tree


def approval_effect(actor: Actor, pk: int, operation: Callable[[], object]) -> dict[str, Any]:
    """The effect of `operation`, which approves request `pk` and is rolled back. Raises NotFound."""
    row = get_request(actor, pk)
    effect_on = effect_on_pool if row.changes_pool else effect_on_pool_tree
    return effect_on(row.pool, operation, actor=actor)
