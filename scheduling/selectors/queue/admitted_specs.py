"""The specification of a recorded workflow, read again from its file: the database has only the amounts of
resources."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from threading import Lock
from typing import cast
from uuid import UUID

from django.apps import apps

from scheduling.domain.workflow_spec import GroupSpec, WorkflowSpec
from scheduling.models import Workflow
from scheduling.specs import SpecRules, parse

MAX_CACHED_SPECS = 2000
# The pool's rules were checked when the file was submitted; the current rules do not apply.
_RULES = SpecRules(max_tasks=1_000_000, max_pods=1_000_000)


class UnreadableSpec(ValueError):
    """An admitted file that is no longer readable; the message contains the reason."""


class AdmittedSpecCache:
    """The specifications that were read last. The file of a workflow never changes, so an entry never becomes invalid;
    the oldest entries are dropped. The scheduling app owns the cache of the process."""

    def __init__(self) -> None:
        self._specs: OrderedDict[UUID, WorkflowSpec] = OrderedDict()
        self._lock = Lock()

    def find(self, workflows: Collection[UUID]) -> dict[UUID, WorkflowSpec]:
        """The cached specifications of these workflows."""
        with self._lock:
            return {pk: self._specs[pk] for pk in workflows if pk in self._specs}

    def add(self, workflow: UUID, spec: WorkflowSpec) -> None:
        """Cache a specification."""
        with self._lock:
            self._specs[workflow] = spec
            while len(self._specs) > MAX_CACHED_SPECS:
                self._specs.popitem(last=False)


def _cache_of_process() -> AdmittedSpecCache:
    return cast("AdmittedSpecCache", apps.get_app_config("scheduling").admitted_specs)  # type: ignore[attr-defined]


def read_admitted_specs(workflows: Collection[UUID]) -> dict[UUID, WorkflowSpec | UnreadableSpec]:
    """The specifications of these workflows; one query for those that are not cached."""
    cache = _cache_of_process()
    specs: dict[UUID, WorkflowSpec | UnreadableSpec] = {**cache.find(workflows)}
    missing = [pk for pk in workflows if pk not in specs]
    for pk, text in Workflow.objects.filter(pk__in=missing).order_by().values_list("pk", "spec"):
        parsed = parse(text, rules=_RULES, is_rendered=True)
        if parsed.spec is None:
            reason = parsed.violations[0].message if parsed.violations else "it is empty"
            specs[pk] = UnreadableSpec(f"The file of this workflow is no longer readable: {reason}")
            continue
        specs[pk] = parsed.spec
        cache.add(pk, parsed.spec)
    return specs


def find_group_spec(spec: WorkflowSpec, name: str) -> GroupSpec | None:
    """The group of this name."""
    return next((group for group in spec.groups if group.name == name), None)
