"""The locks of scheduling's own tables. They continue the order of :mod:`pools.locking`.

| # | lock | row or advisory lock | held |
|---|------|----------------------|------|
| 0 | scheduling cycle of a backend | advisory lock of :mod:`scheduling.services.simulated.reconcile` | by the connection |
| 1–8 | the ledger | :mod:`pools.locking` | to the end of the transaction |

Workflows, groups and tasks have no locks of their own in transitions: a transition holds the pool tree. `lock_workflow`
and `lock_workflow_config` are the only lock of their transaction.
"""

from __future__ import annotations

from uuid import UUID

from django.db import connection

from scheduling.models import Workflow, WorkflowConfig


def lock_workflow(pk: UUID) -> Workflow:
    """Lock the row of a workflow until the transaction ends."""
    assert connection.in_atomic_block, "a lock outside a transaction protects nothing"
    return Workflow.objects.select_for_update(of=("self",), no_key=True).get(pk=pk)


def lock_workflow_config() -> WorkflowConfig:
    """Lock the one row of the scheduler settings until the transaction ends."""
    assert connection.in_atomic_block, "a lock outside a transaction protects nothing"
    return WorkflowConfig.objects.select_for_update().get(pk=1)
