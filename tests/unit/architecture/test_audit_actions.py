"""The actions of the audit trail: each is a member of one enum, which the triggers, the readers and the pages name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

from django.apps import apps

import pools.domain.changes as pools_changes
import scheduling.domain.changes as scheduling_changes
from pools.domain.approvals import ApprovalState
from pools.domain.audit_actions import AuditAction
from pools.domain.changes.command import ChangeCommand
from pools.models import GpuAllocation
from pools.models.triggers import AuditTrigger
from tests.support.product_source import module_facts

HOME = "pools/domain/audit_actions.py"
WITH_STATE = {"approval.": set(ApprovalState) - {ApprovalState.WAITING}, "gpu_allocation.": set(GpuAllocation.State)}
"""Triggers that add the state of the row to a prefix."""
OF_NO_CHANGE = {
    "approval.expired", "approval.requested", "approval.superseded", "backend.connected", "cohort.active",
    "cohort.inactive", "condition.began", "condition.ended", "condition.updated", "config_file.accepted",
    "config_file.refused", "gpu_allocation.deleted", "node.suspected", "owner.released", "owner.taken", "owner.updated",
    "role.updated", "sign_on.ended", "sign_on.linked", "sign_on.signed_on", "sign_on.updated", "subpool.deleted",
    "token.updated", "user.logged_in_by_password", "webhook.installed", "webhook.put_back", "webhook.removed",
    "workflow.deleted", "workflow.preempted", "workflow.started", "workflow.waiting", "workflow_config.deleted",
}  # fmt: skip
"""Actions that follow from time, a cluster, a sign-on, a file of Git, a request for an approval, or raw SQL."""


def written_actions() -> set[str]:
    """The actions in the SQL of all triggers that write entries."""
    found: set[str] = set()
    for model in apps.get_models():
        for trigger in getattr(model._meta, "triggers", []):
            if isinstance(trigger, AuditTrigger):
                (sql,) = re.findall(r"audit_action := (.*?);", trigger.func, re.DOTALL)
                found |= set(re.findall(r"'([a-z_]+\.[a-z_]+)'", sql))
                found |= {
                    f"{prefix}{state}"
                    for prefix in re.findall(r"'([a-z_]+\.)' \|\|", sql)
                    for state in WITH_STATE[prefix]
                }
    return found


def test_what_the_triggers_write_is_what_the_enum_has() -> None:
    assert written_actions() == set(AuditAction)


def test_no_module_spells_an_action() -> None:
    """Neither as a text of its own nor in the quotes of SQL."""
    actions = "|".join(map(re.escape, AuditAction))
    spelled = re.compile(rf"^({actions})$|'({actions})'")
    found = [
        f"{path}:{line}: {text}"
        for path, facts in module_facts().items()
        for line, text in facts.constants
        if path != HOME and spelled.search(text)
    ]
    assert found == []


def declared_actions(parent: type[ChangeCommand] = ChangeCommand) -> Iterator[AuditAction]:
    """The actions that the changes declare."""
    for kind in parent.__subclasses__():
        yield from getattr(kind, "audit", ())
        yield from declared_actions(kind)


def test_each_action_belongs_to_a_change_or_to_none() -> None:
    """The API document names the actions of each change, so one that no change declares is missing there."""
    for package in (pools_changes, scheduling_changes):
        for module in iter_modules(package.__path__):
            import_module(f"{package.__name__}.{module.name}")
    assert set(AuditAction) - set(declared_actions()) == OF_NO_CHANGE
