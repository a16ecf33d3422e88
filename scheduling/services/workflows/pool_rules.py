"""The rules that a pool's configuration sets for workflow files."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.conf import settings

from pools.domain.values.durations import parse_duration
from pools.models import Backend, Pool
from scheduling.specs import PlatformRules, SpecRules


def pool_spec_rules(root: Pool) -> SpecRules:
    """The rules of this top-level pool."""
    config, platforms = root.config, root.platforms
    return SpecRules(
        max_tasks=settings.OSMO.max_tasks,
        max_pods=settings.OSMO.max_pods,
        platforms={name: _platform_rules(body) for name, body in platforms.items()},
        default_platform=config.get("default_platform") or (next(iter(platforms)) if len(platforms) == 1 else None),
        default_exec_timeout=_timeout(config.get("default_exec_timeout")),
        default_queue_timeout=_timeout(config.get("default_queue_timeout")),
        max_exec_timeout=_timeout(config.get("max_exec_timeout")),
        max_queue_timeout=_timeout(config.get("max_queue_timeout")),
        default_variables=config.get("common_default_variables") or {},
        exit_actions=config.get("default_exit_actions") or {},
        topology_keys=root.topology_labels,
        on_cluster=root.backend is not None and root.backend.kind == Backend.Kind.KUBERNETES,
        gpu_flavors=root.gpu_flavors,
    )


def _timeout(text: object) -> timedelta | None:
    """A timeout of the configuration; its value was checked when it was written."""
    return parse_duration(str(text)) if text else None


def _platform_rules(body: Mapping[str, Any]) -> PlatformRules:
    return PlatformRules(
        privileged_allowed=bool(body.get("privileged_allowed")),
        host_network_allowed=bool(body.get("host_network_allowed")),
        allowed_mounts=tuple(body.get("allowed_mounts") or ()),
    )
