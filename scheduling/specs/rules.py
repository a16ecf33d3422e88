"""The facts about a pool that a file is checked against."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any


@dataclass(frozen=True, slots=True)
class PlatformRules:
    """The rights that a platform of the pool gives to a task. `allowed_mounts`: host paths, its default ones
    included."""

    privileged_allowed: bool = False
    host_network_allowed: bool = False
    allowed_mounts: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class SpecRules:
    """The rules of a pool for workflow files. None means: not known here, not checked.

    A time above `max_…` is cut to it with a warning, as OSMO does; an absent one is `default_…`. `default_variables`
    (the pool's `common_default_variables`) are the weakest values a template has. `exit_actions` is the pool's
    `default_exit_actions`, for codes that a task does not name itself. `topology_keys` are coarse to fine. `max_pods`
    is for a PodGroup what `max_tasks` is for a workflow file; `on_cluster` says that its pods run on a Kubernetes
    cluster. `gpu_flavors` are those of the pool, in its order of preference.
    """

    max_tasks: int = 20
    max_pods: int = 1000
    platforms: Mapping[str, PlatformRules] | None = None
    default_platform: str | None = None
    default_exec_timeout: timedelta | None = None
    default_queue_timeout: timedelta | None = None
    max_exec_timeout: timedelta | None = None
    max_queue_timeout: timedelta | None = None
    default_variables: Mapping[str, Any] = field(default_factory=dict)
    exit_actions: Mapping[str, str] = field(default_factory=dict)
    topology_keys: Collection[str] | None = None
    on_cluster: bool = False
    gpu_flavors: Collection[str] | None = None
