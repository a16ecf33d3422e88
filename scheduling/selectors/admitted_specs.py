"""What a workflow on record asks for, read again from its file: the database keeps amounts, the file keeps the rest."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection
from uuid import UUID

from scheduling.domain.workflow_spec import GroupSpec, WorkflowSpec
from scheduling.models import Workflow
from scheduling.specs import SpecRules, parse

MAX_CACHED_SPECS = 2000
# What a pool demanded was asked when the file came; today's pool has no say in it any more.
_RULES = SpecRules(max_tasks=1_000_000, max_pods=1_000_000)

_cached_specs: OrderedDict[UUID, WorkflowSpec] = OrderedDict()
_lock = threading.Lock()


class UnreadableSpec(ValueError):
    """A file that was admitted cannot be read any more; the sentence says why."""


def read_admitted_specs(workflows: Collection[UUID]) -> dict[UUID, WorkflowSpec | UnreadableSpec]:
    """The specs of these workflows; one query for those not read lately. A file never changes, so they are kept."""
    with _lock:
        found: dict[UUID, WorkflowSpec | UnreadableSpec] = {
            pk: _cached_specs[pk] for pk in workflows if pk in _cached_specs
        }
    missing = [pk for pk in workflows if pk not in found]
    for pk, text in Workflow.objects.filter(pk__in=missing).order_by().values_list("pk", "spec"):
        parsed = parse(text, rules=_RULES, is_rendered=True)
        if parsed.spec is None:
            why = parsed.violations[0].message if parsed.violations else "it says nothing"
            found[pk] = UnreadableSpec(f"The file of this workflow cannot be read any more: {why}")
            continue
        found[pk] = parsed.spec
        with _lock:
            _cached_specs[pk] = parsed.spec
            while len(_cached_specs) > MAX_CACHED_SPECS:
                _cached_specs.popitem(last=False)
    return found


def find_group_spec(spec: WorkflowSpec, name: str) -> GroupSpec | None:
    """The group of this name."""
    return next((group for group in spec.groups if group.name == name), None)
